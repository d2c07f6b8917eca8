"""One attempt on several nodes: started on all nodes, and ended on all nodes if one fails.

The agent that the engine starts on the first node is the conductor. It starts an agent on each node
with srun, unless the engine has started them. It waits for the rendezvous of all agents, checks
that they can reach the first node, and starts their programs. From then on, messages over their
connections carry the result of each node and the request to end. A closed connection means that
its agent is gone.
"""

from __future__ import annotations

import contextlib
import functools
import math
import secrets
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.node.program import Ending
from tarmac.node.records import AttemptSpec, Cause
from tarmac.node.rendezvous import (
    BEAT_EVERY_S,
    RENDEZVOUS_TIMEOUT_S,
    SILENT_AFTER_S,
    Invitation,
    Line,
    host_addresses,
    hosts_of,
    knock,
    listen,
)
from tarmac.node.standing import LOST_PEERS, Node, Nodes
from tarmac.processes import MARK, Child, kill_tree, spawn

if TYPE_CHECKING:
    from tarmac.node.inbox import Inbox

_GREETING_S = 5.0

# Time on top of a program's grace period for its stage out and for the message to the conductor.
_END_SLACK_S = 5.0

# After ranks report a lost peer, time for that peer to report its own failure: `tarmac train` waits
# 5 s for its ranks.
_SAYS_WITHIN_S = 10.0


def conduct(
    element: AttemptSpec,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    inbox: Inbox,
    began: Callable[[list[str]], None],
    *,
    mark: str,
    meet_within_s: float = RENDEZVOUS_TIMEOUT_S,
) -> Ending:
    """Run an attempt on all nodes of the engine's allocation, and return its ending.

    Args:
        element: Attempt to run, with its number of nodes.
        arguments: Arguments of the agents on the nodes: ``--part SPEC NUMBER``.
        environment: Environment variables that this agent was started with.
        inbox: Inbox whose requests end the attempt on all nodes.
        began: Function that gets the GPUs of all nodes just before all programs start.
        mark: Mark by which a guardian finds the processes of this agent.
        meet_within_s: Seconds to wait for the rendezvous of all nodes. Default 300.
    """
    # Without the mark, this agent's guardian does not kill the other agents: they end by themselves
    # when this agent ends, and give their programs the whole grace period.
    command = [*_starter(element.nodes, environment), "env", "-u", MARK, *_agent(environment)]
    nodes = Nodes(element, hosts_of(environment.get("SLURM_JOB_NODELIST", "")))
    conductor = _MultiNodeLauncher(
        element,
        nodes,
        inbox,
        began,
        meet_within_s=meet_within_s,
        invitation=Invitation.find(environment),
    )
    with conductor.invited(environment) as variables:
        try:
            starter = spawn(
                [*command, *arguments],
                environment={**environment, **variables},
                mark=f"{MARK}={mark}",
            )
        except OSError as error:
            return Ending("failed", "start", f"not started: {command[0]}: {error.strerror}")
        try:
            conductor.conduct(starter)
        finally:
            kill_tree(starter)
            starter.finish()
    return nodes.judge(inbox.request)


def _starter(nodes: int, environment: Mapping[str, str]) -> list[str]:
    """Return the command that starts a program once on each node and exits with the last of them.

    TARMAC_STARTER names the command in an engine without srun. The command is empty if the engine
    has started and invited the other agents: only this node's own agent is left to start.

    Agents report their results and get requests to end over their connections. So a node may finish
    minutes before another (``--wait=0``), and srun ends all nodes if an agent itself fails.
    """
    if Invitation.find(environment) is not None:
        return []
    if "TARMAC_STARTER" in environment:
        return [environment["TARMAC_STARTER"]]
    command = [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        "--kill-on-bad-exit=1",
        "--wait=0",
        "--mpi=none",
        "--export=ALL",
    ]
    # Since Slurm 22.05 a step does not inherit this from its job, and would get one core.
    cpus = environment.get("SLURM_CPUS_PER_TASK")
    return [*command, f"--cpus-per-task={cpus}"] if cpus else command


def _agent(environment: Mapping[str, str]) -> list[str]:
    file = str(Path(sys.argv[0]).resolve())
    # On this node this interpreter works; on other nodes the file's sh part finds a Python.
    is_here = Invitation.find(environment) is not None
    return [sys.executable, "-I", "-S", file] if is_here else ["sh", file]


class _MultiNodeLauncher:
    """The conductor of one attempt.

    Args:
        element: Attempt to run, with its number of nodes.
        nodes: Nodes of the attempt, still without any agent.
        inbox: Inbox whose requests end the attempt on all nodes.
        began: Function that gets the GPUs of all nodes just before all programs start.
        meet_within_s: Seconds to wait for the rendezvous of all nodes.
        invitation: Invitation that the other agents already have from the engine. None: create one.
    """

    def __init__(
        self,
        element: AttemptSpec,
        nodes: Nodes,
        inbox: Inbox,
        began: Callable[[list[str]], None],
        *,
        meet_within_s: float,
        invitation: Invitation | None,
    ) -> None:
        self._element = element
        self._nodes = nodes
        self._inbox = inbox
        self._began = began
        self._meet_within_s = meet_within_s
        self._token = invitation.token if invitation else secrets.token_hex(16)
        self._port = invitation.port if invitation else 0
        self._waits_for = "its own agent" if invitation else "srun"
        self._end_at = math.inf
        self._ended_at: float | None = None
        self._selector = selectors.DefaultSelector()

    @contextlib.contextmanager
    def invited(self, environment: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Listen for agents; yield the variables with the invitation for them."""
        with listen(self._port) as server, self._selector:
            accept = functools.partial(self._accept, server)
            self._selector.register(server, selectors.EVENT_READ, accept)
            addresses = host_addresses(environment)
            yield Invitation(addresses, server.getsockname()[1], self._token).to_variables()
            for node in self._nodes:
                node.line.close()

    def conduct(self, starter: Child) -> None:
        """Serve all nodes until the last has ended or the time to end is over.

        Args:
            starter: Process that starts the agents and exits after them.
        """
        if self._gather(starter) and self._connect(starter) and self._wait_for_stages(starter):
            self._wait_while(lambda: bool(self._nodes.at_work))
        self._wait_while(lambda: bool(self._nodes.at_work))
        if not self._nodes.at_work:
            starter.wait(_END_SLACK_S)

    def _gather(self, starter: Child) -> bool:
        """Wait for the rendezvous of all nodes; otherwise fail and name the missing nodes."""
        if self._wait_while(lambda: bool(self._nodes.missing), self._meet_within_s, starter):
            return True
        if self._is_ending:
            return False
        missing = self._nodes.missing
        how = f"within {self._meet_within_s:g} s"
        if starter.has_ended():
            how = f"before {self._waits_for} ended; its output is in the engine's log"
        names = ", ".join(map(self._nodes.name, missing))
        self._fail(missing[0], "node", f"{names} did not connect {how}")
        return False

    def _connect(self, starter: Child) -> bool:
        """Check that all nodes can reach the first node; return whether they can."""
        first, *others = self._nodes
        for node in others:
            node.line.send(do="probe", addresses=first.addresses, port=first.port)
        if not self._wait_while(
            lambda: any(node.reached is None for node in others), self._meet_within_s, starter
        ):
            if self._is_ending:
                return False
            silent = next(node.rank for node in others if node.reached is None)
            words = f"{self._nodes.name(silent)} did not try to reach the first node"
            self._fail(silent, "node", words)
            return False
        for node in others:
            if not node.reached:
                names = [self._nodes.name(rank) for rank in (node.rank, 0)]
                self._fail(node.rank, "node", f"{' cannot reach '.join(names)}: {node.problem}")
        return not self._nodes.has_failed

    def _wait_for_stages(self, starter: Child) -> bool:
        """Wait for the stage in of all nodes and start the programs; return whether they start."""
        nodes = [*self._nodes]
        if not self._wait_while(
            lambda: any(node.is_at_work and not node.is_ready for node in nodes), starter=starter
        ):
            return False
        if self._is_ending or not all(node.is_at_work for node in nodes):
            return False
        first, others = nodes[0], nodes[1:]
        # The first node's agent must leave the port before any program connects to it.
        first.line.send(do="free")
        if not self._wait_while(lambda: first.is_at_work and not first.has_freed, starter=starter):
            return False
        self._began([gpu for node in nodes for gpu in node.gpus])
        common = [a for a in first.addresses if all(a in (node.reached or ()) for node in others)]
        for node in nodes:
            # If no address works for all nodes, each node gets an address that works for it.
            address = (common or node.reached or first.addresses)[0]
            node.line.send(do="go", address=address, port=first.port)
        return True

    def _wait_while(
        self,
        is_so: Callable[[], bool],
        limit_s: float = math.inf,
        starter: Child | None = None,
    ) -> bool:
        """Handle messages and requests while a condition holds.

        Args:
            is_so: Condition; the wait succeeds when it becomes false.
            limit_s: Seconds to wait at most. Default: no limit.
            starter: Process that starts the agents. Waiting stops when it exits or the whole
                attempt is ending. None: not watched.

        Returns:
            Whether the condition became false.
        """
        now = next_beat = time.monotonic()
        end = now + limit_s
        while is_so():
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + BEAT_EVERY_S
                self._tell(do="beat")
                self._look_for_silent(now)
            if now >= self._end_at:
                self._end_all()
            if self._ended_at is not None:
                end = min(end, self._ended_at + self._element.grace_s + _END_SLACK_S)
            is_vain = starter is not None and (self._is_ending or starter.has_ended())
            # Messages that have already arrived may still end the condition.
            patience_s = 0.0 if is_vain else max(0.0, min(next_beat, end, self._end_at) - now)
            self._inbox.wait(patience_s, self._selector.fileno())
            if self._inbox.request is not None:
                self._end_all()
            come = self._selector.select(0)
            for key, _ in come:
                key.data()
            if not come and (is_vain or now >= end):
                return False
        return True

    @property
    def _is_ending(self) -> bool:
        return self._ended_at is not None

    @property
    def _is_told(self) -> bool:
        """Whether the engine has already signalled the programs of all nodes."""
        return self._inbox.request is not None and self._inbox.request.is_told

    def _look_for_silent(self, now: float) -> None:
        for node in self._nodes.at_work:
            silent_s = now - node.heard_at
            if silent_s > SILENT_AFTER_S:
                self._lose(node, f"it gave no sign for {silent_s:.0f} s")

    def _end_all(self) -> None:
        if self._ended_at is None:
            self._ended_at, self._end_at = time.monotonic(), math.inf
            self._tell(do="end", is_told=self._is_told)

    def _tell(self, **message: Any) -> None:
        for node in self._nodes.at_work:
            node.line.send(**message)

    def _accept(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        if knock(connection, self._token):
            line = Line(connection)
            connection.settimeout(_GREETING_S)
            with contextlib.suppress(TimeoutError):
                while (messages := line.receive()) is not None:
                    if messages:
                        self._meet(line, *messages)
                        return
        connection.close()

    def _meet(self, line: Line, message: Mapping[str, Any], *more: dict[str, Any]) -> None:
        """Register a node by its first message; handle messages that arrived with it."""
        node = Node(line=line, heard_at=time.monotonic(), **message)
        self._nodes.add(node)
        hear = functools.partial(self._on_answer, node)
        self._selector.register(line.socket, selectors.EVENT_READ, hear)
        if self._is_ending:
            line.send(do="end", is_told=self._is_told)
        self._heed(node, more)

    def _on_answer(self, node: Node) -> None:
        messages = node.line.receive()
        if messages is None:
            self._selector.unregister(node.line.socket)
            if node.is_at_work:
                self._lose(node, "its agent is gone")
            return
        node.heard_at = time.monotonic()
        self._heed(node, messages)

    def _heed(self, node: Node, messages: Sequence[dict[str, Any]]) -> None:
        for message in messages:
            kind = message.pop("do")
            if kind == "reached":
                node.reached, node.problem = message["addresses"], message["problem"]
            elif kind == "ready":
                node.is_ready = True
            elif kind == "freed":
                node.has_freed = True
            elif kind == "ended":
                self._note_ending(node, message.pop("tail"), Ending(**message))

    def _note_ending(self, node: Node, tail: str, ending: Ending) -> None:
        node.ending = ending
        if ending.outcome == "failed":
            words = f"{self._nodes.name(node.rank)}: {ending.reason}"
            self._fail(node.rank, ending.cause, words, ending.exit_code, tail)
        elif ending.outcome == "interrupted":
            self._end_all()

    def _lose(self, node: Node, how: str) -> None:
        node.is_lost = True
        self._fail(node.rank, "node", f"{self._nodes.name(node.rank)} was lost: {how}")

    def _fail(
        self,
        rank: int,
        cause: Cause,
        words: str,
        exit_code: int | None = None,
        tail: str = "",
    ) -> None:
        self._nodes.note_failure(rank, cause, words, exit_code, tail, was_asked=self._is_ending)
        if exit_code == LOST_PEERS and not self._is_ending:
            self._end_at = min(self._end_at, time.monotonic() + _SAYS_WITHIN_S)
        else:
            self._end_all()

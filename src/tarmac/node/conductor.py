"""One attempt on several nodes: started on all of them, and ended on all where one has failed.

The agent that the engine has started, on the first node, conducts: it lets srun start an agent on
each node, unless the engine itself has done so; waits until all have come, has them see that the
first one can be reached, and tells them to begin. What happens from then on passes over the
connections between them: how each has ended, that all shall end, and, as a connection ends with its
process, that one is gone.
"""

from __future__ import annotations

import contextlib
import functools
import math
import secrets
import selectors
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.node.program import Ending
from tarmac.node.rendezvous import (
    BEAT_EVERY_S,
    MEET_WITHIN_S,
    SILENT_AFTER_S,
    Invitation,
    Line,
    host_addresses,
    hosts_of,
    knock,
    listen,
)
from tarmac.node.standing import LOST_PEERS, Node, Nodes
from tarmac.processes import MARK, kill_tree, spawn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tarmac.node.inbox import Inbox
    from tarmac.node.records import Cause, Element
    from tarmac.processes import Child

_GREETING_S = 5.0

# What a program's end may take on top of its own grace: its outputs, and the way here.
_END_SLACK_S = 5.0

# The one that they have lost may take so long to say why: `tarmac train` waits 5 s for its ranks.
_SAYS_WITHIN_S = 10.0


def conduct(
    element: Element,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    inbox: Inbox,
    began: Callable[[list[str]], None],
    *,
    mark: str,
    meet_within_s: float = MEET_WITHIN_S,
) -> Ending:
    """Run an attempt on all nodes that the engine has given, and return how it ended.

    Args:
        element: Attempt to run, with its number of nodes.
        arguments: Arguments of the agents on the nodes: ``--part SPEC NUMBER``.
        environment: Environment variables that this agent was started with.
        inbox: What is asked in it ends the attempt on all nodes.
        began: Is told the GPUs of all nodes once all are to begin.
        mark: By which a guardian finds what is started.
        meet_within_s: How long all nodes are waited for, in seconds.
    """
    # The agents end by themselves with this one, and have a program's whole grace for it: this
    # one's guardian, which is in a hurry, is not to find them.
    command = [*_starter(element.nodes, environment), "env", "-u", MARK, *_agent(environment)]
    nodes = Nodes(element, hosts_of(environment.get("SLURM_JOB_NODELIST", "")))
    conductor = _Conductor(
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
    return nodes.judge(inbox.asked)


def _starter(nodes: int, environment: Mapping[str, str]) -> list[str]:
    """Return what starts a program once on each node, and ends with the last of them.

    What runs in an engine without such a command names one of its own. Nothing does where the
    engine has started the others, which are invited already: this node's own agent is left.

    Agents say by themselves how they have ended and are told when to end, so that a node may be
    done minutes before another (``--wait=0``); srun ends all where an agent itself is gone.
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
    # Since 22.05 a step does not take this over from its job, and would have one core.
    cpus = environment.get("SLURM_CPUS_PER_TASK")
    return [*command, f"--cpus-per-task={cpus}"] if cpus else command


def _agent(environment: Mapping[str, str]) -> list[str]:
    file = str(Path(sys.argv[0]).resolve())
    # On another node another Python may do; on this one it is known.
    is_here = Invitation.find(environment) is not None
    return [sys.executable, "-I", "-S", file] if is_here else ["sh", file]


class _Conductor:
    """Conducts one attempt.

    Args:
        element: Attempt to run, with its number of nodes.
        nodes: Those that have come; none yet.
        inbox: What is asked in it ends all.
        began: Is told the GPUs of all nodes.
        meet_within_s: How long all nodes are waited for, in seconds.
        invitation: What the others were told before this one began; None where they are not.
    """

    def __init__(
        self,
        element: Element,
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
        """Listen meanwhile; give the variables by which agents find the way here."""
        with listen(self._port) as server, self._selector:
            accept = functools.partial(self._accept, server)
            self._selector.register(server, selectors.EVENT_READ, accept)
            addresses = host_addresses(environment)
            yield Invitation(addresses, server.getsockname()[1], self._token).to_variables()
            for node in self._nodes:
                node.line.close()

    def conduct(self, starter: Child) -> None:
        """Attend to all nodes until the last has ended, or will not.

        Args:
            starter: What starts the agents, and ends when they have.
        """
        if self._gather(starter) and self._connect(starter) and self._wait_for_stages(starter):
            self._wait_while(lambda: bool(self._nodes.at_work))
        self._wait_while(lambda: bool(self._nodes.at_work))
        if not self._nodes.at_work:
            starter.wait(_END_SLACK_S)

    def _gather(self, starter: Child) -> bool:
        """Wait until all nodes have come; where some have not, name them."""
        if self._wait_while(lambda: bool(self._nodes.missing), self._meet_within_s, starter):
            return True
        if self._is_ending:
            return False
        missing = self._nodes.missing
        how = f"within {self._meet_within_s:g} s"
        if starter.has_ended():
            how = f"before {self._waits_for} ended; what it said is in the engine's log"
        names = ", ".join(map(self._nodes.name, missing))
        self._fail(missing[0], "node", f"{names} did not come {how}")
        return False

    def _connect(self, starter: Child) -> bool:
        """See that all can reach the first, and tell them to begin, with the address for it."""
        first, *others = self._nodes
        for node in others:
            node.line.send(do="probe", addresses=first.addresses, port=first.port)
        if not self._wait_while(
            lambda: any(node.reached is None for node in others), self._meet_within_s, starter
        ):
            if self._is_ending:
                return False
            silent = next(node.rank for node in others if node.reached is None)
            words = f"{self._nodes.name(silent)} did not look for the first node"
            self._fail(silent, "node", words)
            return False
        for node in others:
            if not node.reached:
                names = [self._nodes.name(rank) for rank in (node.rank, 0)]
                self._fail(node.rank, "node", f"{' cannot reach '.join(names)}: {node.problem}")
        return not self._nodes.has_failed

    def _wait_for_stages(self, starter: Child) -> bool:
        """Wait until all have what they need, and tell them to begin, with where they meet."""
        nodes = [*self._nodes]
        if not self._wait_while(
            lambda: any(node.is_at_work and not node.is_ready for node in nodes), starter=starter
        ):
            return False
        if self._is_ending or not all(node.is_at_work for node in nodes):
            return False
        first, others = nodes[0], nodes[1:]
        # No program is to find the first node's agent at its program's port.
        first.line.send(do="free")
        if not self._wait_while(lambda: first.is_at_work and not first.has_freed, starter=starter):
            return False
        self._began([gpu for node in nodes for gpu in node.gpus])
        common = [a for a in first.addresses if all(a in (node.reached or ()) for node in others)]
        for node in nodes:
            # Where no address is right for all, each has one of its own.
            address = (common or node.reached or first.addresses)[0]
            node.line.send(do="go", address=address, port=first.port)
        return True

    def _wait_while(
        self,
        is_so: Callable[[], bool],
        limit_s: float = math.inf,
        starter: Child | None = None,
    ) -> bool:
        """Attend to all that comes while something is so.

        Args:
            is_so: What is waited for to end.
            limit_s: How long, in seconds.
            starter: Process that starts the agents. Waiting stops when it exits or the whole
                attempt is ending. None: not watched.

        Returns:
            Whether it is no more so.
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
            # What has come already may still make it so.
            patience_s = 0.0 if is_vain else max(0.0, min(next_beat, end, self._end_at) - now)
            self._inbox.wait(patience_s, self._selector.fileno())
            if self._inbox.asked is not None:
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
        """Whether the engine's signal has gone to the programs of all nodes."""
        return self._inbox.asked is not None and self._inbox.asked.is_told

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

    def _meet(self, line: Line, said: Mapping[str, Any], *more: dict[str, Any]) -> None:
        """Attend to a node from its first message on; others may have come with that."""
        node = Node(line=line, heard_at=time.monotonic(), **said)
        self._nodes.add(node)
        hear = functools.partial(self._hear, node)
        self._selector.register(line.socket, selectors.EVENT_READ, hear)
        if self._is_ending:
            line.send(do="end", is_told=self._is_told)
        self._heed(node, more)

    def _hear(self, node: Node) -> None:
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

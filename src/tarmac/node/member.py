"""The agent on one of several nodes: joins the rendezvous, runs the program, reports the result.

Its connection to the conductor ends with either side. If the conductor is gone, the agent ends its
program: nothing else would end it, and another attempt may start.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.node.attempt import AgentContext, find_gpus, perform, without_gpus
from tarmac.node.engine import rank_of
from tarmac.node.gpus import GpuError
from tarmac.node.program import Ending
from tarmac.node.records import AttemptSpec, log_file
from tarmac.node.rendezvous import (
    BEAT_EVERY_S,
    RENDEZVOUS_TIMEOUT_S,
    SILENT_AFTER_S,
    Invitation,
    Line,
    Unreachable,
    host_addresses,
    knock,
    listen,
    program_variables,
    reach,
)

if TYPE_CHECKING:
    from tarmac.node.inbox import Inbox

_PROBE_S = 20.0

_TAIL_LINES = 20
_TAIL_BYTES = 16384


class NotMet(Exception):  # noqa: N818 - named after the condition
    """The conductor is unreachable or gone; the message says how."""


def perform_part(element: AttemptSpec, here: AgentContext) -> None:
    """Run one node's part of an attempt, and report the result to the conductor.

    Args:
        element: Attempt that this node runs a part of.
        here: Context of this agent. The program does not get the invitation in its environment.

    Raises:
        NotMet: The conductor is unreachable or gone.
    """
    environment = dict(here.environment)
    rank = rank_of(environment)
    try:
        invitation = Invitation.take(environment)
        _, connection = reach(invitation, RENDEZVOUS_TIMEOUT_S)
    except (ValueError, Unreachable) as error:
        raise NotMet(f"node {rank} cannot reach the first one: {error}") from error
    member = Member(element, rank, Line(connection), invitation.token, here.inbox)
    here = here._replace(environment=environment, rank=rank, meet=member.meet)
    stderr = log_file(element.directory, "stderr", rank)
    before = stderr.stat().st_size if stderr.exists() else 0
    with member.answering():
        try:
            gpus = find_gpus(element, here.engine)
        except GpuError as error:
            member.come(here, [])
            ending = without_gpus(error, here.engine)
        else:
            member.come(here, gpus)
            ending = perform(element, gpus, here)
    member.tell_ended(ending, _last_lines(stderr, before))


class Member:
    """The agent's side of the connection to the conductor.

    Args:
        element: Attempt that this node runs a part of.
        rank: Rank of this node, from 0.
        line: Connection to the conductor.
        token: Token of the attempt, by which agents recognise each other.
        inbox: Inbox that gets the request to end the program.

    Attributes:
        port: TCP port that the agent listens on until the program takes it over.
    """

    def __init__(
        self, element: AttemptSpec, rank: int, line: Line, token: str, inbox: Inbox
    ) -> None:
        self._element = element
        self._rank = rank
        self._line = line
        self._token = token
        self._inbox = inbox
        self._lost = ""
        self._place: tuple[str, int] | None = None
        self._came, self._comes = os.pipe()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._server = listen()
        self.port: int = self._server.getsockname()[1]
        self._answerer = threading.Thread(target=self._answer, daemon=True)

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Answer probes of other nodes until the program takes over the port."""
        self._answerer.start()
        try:
            yield
        finally:
            self._stop_answering()

    def come(self, here: AgentContext, gpus: Sequence[str]) -> None:
        """Introduce this node to the conductor, and handle its messages from now on."""
        self._send(
            rank=self._rank,
            host=here.engine.host,
            addresses=host_addresses(here.environment),
            port=self.port,
            gpus=list(gpus),
        )
        self._line.socket.settimeout(SILENT_AFTER_S)
        for work in (self._attend, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def meet(self) -> Mapping[str, str]:
        """Wait for the stage in of all nodes; return the variables to find the other nodes.

        The result is empty if a request to end the attempt comes first.
        """
        self._send(do="ready")
        while self._place is None and self._inbox.request is None:
            self._inbox.wait(SILENT_AFTER_S, self._came)
        if self._place is None:
            return {}
        address, port = self._place
        element = self._element
        return program_variables(
            nodes=element.nodes, rank=self._rank, gpus=element.gpus, address=address, port=port
        )

    def tell_ended(self, ending: Ending, tail: str) -> None:
        """Report the program's ending to the conductor.

        Raises:
            NotMet: The conductor is gone.
        """
        self._over.set()
        if self._lost:
            raise NotMet(f"{self._lost}; its part of the attempt ended: {ending.reason}")
        self._send(do="ended", **ending._asdict(), tail=tail)
        with contextlib.suppress(OSError):
            self._line.socket.shutdown(socket.SHUT_WR)

    def _send(self, **message: Any) -> None:
        with self._lock:
            self._line.send(**message)

    def _beat(self) -> None:
        while not self._over.wait(BEAT_EVERY_S):
            self._send(do="beat")

    def _attend(self) -> None:
        how = "is gone"
        try:
            while (messages := self._line.receive()) is not None:
                for message in messages:
                    self._do(message)
        except TimeoutError:
            how = f"gave no sign for {SILENT_AFTER_S:g} s"
        if not self._over.is_set():
            self._lost = f"the agent of the first node {how}"
            self._inbox.ask(self._lost)

    def _do(self, message: Mapping[str, Any]) -> None:
        if message["do"] == "probe":
            self._look_for_the_first(Invitation(message["addresses"], message["port"], self._token))
        elif message["do"] == "free":
            self._stop_answering()
            self._send(do="freed")
        elif message["do"] == "go":
            self._place = message["address"], message["port"]
            os.write(self._comes, b"!")
        elif message["do"] == "end":
            self._inbox.ask("the attempt ends on all of its nodes", is_told=message["is_told"])

    def _look_for_the_first(self, invitation: Invitation) -> None:
        reached, problem = [], ""
        try:
            address, connection = reach(invitation, _PROBE_S)
            connection.close()
            reached.append(address)
        except Unreachable as error:
            problem = str(error)
        self._send(do="reached", addresses=reached, problem=problem)

    def _answer(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            # A client that disconnects or stays silent must not block other clients.
            with connection, contextlib.suppress(OSError):
                knock(connection, self._token)
                # The other side closes first, so that TIME_WAIT stays there.
                connection.recv(1)

    def _stop_answering(self) -> None:
        # The port stays taken while the thread waits in accept.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._answerer.join()
        self._server.close()


def _last_lines(path: Path, since: int) -> str:
    """Return the last lines that were written to a file after an offset in bytes."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        start = max(since, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
        file.seek(start)
        lines = file.read().decode(errors="replace").splitlines()
        # Drop a cut line: a later redaction cannot recognize part of a secret.
        if start > since:
            del lines[:1]
        return "\n".join(lines[-_TAIL_LINES:])
    return ""

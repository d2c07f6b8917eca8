"""The states of an attempt's nodes, and the attempt's ending from their endings."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.node.program import Ending
from tarmac.node.records import AttemptSpec, Cause

if TYPE_CHECKING:
    from tarmac.node.inbox import Asked
    from tarmac.node.rendezvous import Line

# Exit code of a process that failed only because its peers are gone: EX_TEMPFAIL, as in `tarmac
# train`.
LOST_PEERS = os.EX_TEMPFAIL

# Exit codes that report on peers; the second means that a peer hangs. The program's own error line
# says more than the code.
_OF_OTHERS = (LOST_PEERS, os.EX_UNAVAILABLE)
_ERROR = "error: "


@dataclasses.dataclass
class Node:
    """An agent that has joined: its first message and its state since."""

    rank: int
    host: str
    addresses: Sequence[str]
    port: int
    gpus: Sequence[str]
    line: Line
    heard_at: float
    reached: Sequence[str] | None = None
    problem: str = ""
    is_ready: bool = False
    has_freed: bool = False
    ending: Ending | None = None
    is_lost: bool = False

    @property
    def is_at_work(self) -> bool:
        """Whether the agent has neither ended nor been lost."""
        return self.ending is None and not self.is_lost


@dataclasses.dataclass(frozen=True)
class _Failure:
    """The failure of a node; `was_asked`: it came after the request to end all nodes."""

    rank: int
    cause: Cause
    words: str
    exit_code: int | None
    tail: str
    was_asked: bool


class Nodes:
    """The nodes of one attempt.

    Args:
        element: Attempt that runs on these nodes.
        hosts: Host names of the nodes by rank, for messages.
    """

    def __init__(self, element: AttemptSpec, hosts: Sequence[str]) -> None:
        self._element = element
        self._hosts = hosts
        self._come: dict[int, Node] = {}
        self._failures: list[_Failure] = []

    def __iter__(self) -> Iterator[Node]:
        """Yield the nodes that have joined, by rank."""
        return iter([node for _, node in sorted(self._come.items())])

    def __len__(self) -> int:
        """Return the number of nodes that have joined."""
        return len(self._come)

    def add(self, node: Node) -> None:
        """Add a node that has joined."""
        self._come[node.rank] = node

    @property
    def missing(self) -> Sequence[int]:
        """The ranks of the nodes that have not joined."""
        return [rank for rank in range(self._element.nodes) if rank not in self._come]

    @property
    def at_work(self) -> Sequence[Node]:
        """The nodes that have joined and have neither ended nor been lost."""
        return [node for node in self if node.is_at_work]

    def name(self, rank: int) -> str:
        """Return the name of a node for messages."""
        host = self._hosts[rank] if rank < len(self._hosts) else ""
        if rank in self._come:
            host = self._come[rank].host
        return f"{host} (node {rank})" if host else f"node {rank}"

    @property
    def has_failed(self) -> bool:
        """Whether any node has failed."""
        return bool(self._failures)

    def note_failure(
        self,
        rank: int,
        cause: Cause,
        words: str,
        exit_code: int | None = None,
        tail: str = "",
        *,
        was_asked: bool,
    ) -> None:
        """Note that a node has failed.

        Args:
            rank: Rank of the node, from 0.
            cause: Cause of the failure, such as ``node``; see `tarmac.node.records`.
            words: Explanation of the failure for messages.
            exit_code: Exit code of the node's program; None where the node was lost or started no
                program.
            tail: Last lines of the program's stderr.
            was_asked: Whether all nodes had been asked to end before.
        """
        reason = _said_last(tail) if exit_code in _OF_OTHERS else ""
        if reason:
            words += f": {reason}"
        self._failures.append(_Failure(rank, cause, words, exit_code, tail, was_asked))

    def judge(self, request: Asked | None) -> Ending:
        """Return the attempt's ending, and add the first failure to the attempt's stderr.

        Args:
            request: Request to the conductor to end the attempt. None: no request.
        """
        endings = [node.ending for node in self if node.ending is not None]
        seconds = max((ending.seconds for ending in endings), default=0.0)
        problems = tuple(problem for ending in endings for problem in ending.problems)
        notes = tuple(note for ending in endings for note in ending.notes)
        if self._failures:
            # Among equals, min returns the failure that was noted first.
            first = min(self._failures, key=lambda f: (f.exit_code == LOST_PEERS, f.was_asked))
            self._say(first)
            bad_host = next((ending.bad_host for ending in endings if ending.bad_host), "")
            return Ending(
                *("failed", first.cause, first.words, first.exit_code),
                *(seconds, problems, bad_host, notes),
            )
        stopped = [ending for ending in endings if ending.outcome == "interrupted"]
        if stopped or len(endings) < self._element.nodes:
            reason = request.reason if request else stopped[0].reason if stopped else "it was ended"
            cause = request.cause if request else "stop"
            return Ending("interrupted", cause, reason, None, seconds, problems)
        return Ending("succeeded", exit_code=0, seconds=seconds, problems=problems, notes=notes)

    def _say(self, first: _Failure) -> None:
        """Append the first failure and its node's last lines to the first node's stderr."""
        lines = [f"--- {first.words}; the attempt was ended on all of its nodes"]
        if first.tail and first.rank:
            lines[:0] = [f"--- the last lines of {self.name(first.rank)}:", first.tail]
        path = Path(self._element.directory, "stderr")
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))


def _said_last(tail: str) -> str:
    """Return a program's last error line; empty if there is none."""
    lines = [line for line in tail.splitlines() if line.startswith(_ERROR)]
    return lines[-1].removeprefix(_ERROR) if lines else ""

"""What is known of the nodes of one attempt, and what their ends make of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.node.program import Ending

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tarmac.node.inbox import Asked
    from tarmac.node.records import Cause, Element
    from tarmac.node.rendezvous import Line

# What a process exits with that has nothing to say but that others are gone: EX_TEMPFAIL, as
# `tarmac train` does.
LOST_PEERS = os.EX_TEMPFAIL

# With these it says something of others, the second that one of them hangs: its own words are more
# than the code.
_OF_OTHERS = (LOST_PEERS, os.EX_UNAVAILABLE)
_ERROR = "error: "


@dataclasses.dataclass
class Node:
    """An agent that has come; what it says of itself first, and what is known since."""

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
        """Whether its end is still to come."""
        return self.ending is None and not self.is_lost


@dataclasses.dataclass(frozen=True)
class _Failure:
    """A node's; `was_asked` is that all were told to end before it was known."""

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
        hosts: The names of its nodes, by rank, for words.
    """

    def __init__(self, element: Element, hosts: Sequence[str]) -> None:
        self._element = element
        self._hosts = hosts
        self._come: dict[int, Node] = {}
        self._failures: list[_Failure] = []

    def __iter__(self) -> Iterator[Node]:
        """Yield those that have come, by rank."""
        return iter([node for _, node in sorted(self._come.items())])

    def __len__(self) -> int:
        """Return how many have come."""
        return len(self._come)

    def add(self, node: Node) -> None:
        """Count one that has come."""
        self._come[node.rank] = node

    @property
    def missing(self) -> Sequence[int]:
        """The ranks of those that have not come."""
        return [rank for rank in range(self._element.nodes) if rank not in self._come]

    @property
    def at_work(self) -> Sequence[Node]:
        """Those that have come, and whose end is still to come."""
        return [node for node in self if node.is_at_work]

    def name(self, rank: int) -> str:
        """Return what a node is called in messages."""
        host = self._hosts[rank] if rank < len(self._hosts) else ""
        if rank in self._come:
            host = self._come[rank].host
        return f"{host} (node {rank})" if host else f"node {rank}"

    @property
    def has_failed(self) -> bool:
        """Whether any has."""
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
            words: The same in words.
            exit_code: Exit code of the node's program; None where the node was lost or started no
                program.
            tail: The last lines that its program has printed.
            was_asked: Whether all had been told to end before.
        """
        reason = _said_last(tail) if exit_code in _OF_OTHERS else ""
        if reason:
            words += f": {reason}"
        self._failures.append(_Failure(rank, cause, words, exit_code, tail, was_asked))

    def judge(self, asked: Asked | None) -> Ending:
        """Return how the attempt ended, and add the words of the node that failed to its stderr.

        Args:
            asked: What the agent that conducts was asked to end it for; None for nothing.
        """
        endings = [node.ending for node in self if node.ending is not None]
        seconds = max((ending.seconds for ending in endings), default=0.0)
        problems = tuple(problem for ending in endings for problem in ending.problems)
        notes = tuple(note for ending in endings for note in ending.notes)
        if self._failures:
            # The sort is stable: among equals it is the first that became known.
            first = min(self._failures, key=lambda f: (f.exit_code == LOST_PEERS, f.was_asked))
            self._say(first)
            bad_host = next((ending.bad_host for ending in endings if ending.bad_host), "")
            return Ending(
                *("failed", first.cause, first.words, first.exit_code),
                *(seconds, problems, bad_host, notes),
            )
        stopped = [ending for ending in endings if ending.outcome == "interrupted"]
        if stopped or len(endings) < self._element.nodes:
            reason = asked.reason if asked else stopped[0].reason if stopped else "it was ended"
            cause = asked.cause if asked else "stop"
            return Ending("interrupted", cause, reason, None, seconds, problems)
        return Ending("succeeded", exit_code=0, seconds=seconds, problems=problems, notes=notes)

    def _say(self, first: _Failure) -> None:
        """Add the words of the node that failed first to those of the first node."""
        lines = [f"--- {first.words}; the attempt was ended on all of its nodes"]
        if first.tail and first.rank:
            lines[:0] = [f"--- the last lines of {self.name(first.rank)}:", first.tail]
        path = Path(self._element.directory, "stderr")
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))


def _said_last(tail: str) -> str:
    """Return what a program has said last of an error; empty where it has not."""
    lines = [line for line in tail.splitlines() if line.startswith(_ERROR)]
    return lines[-1].removeprefix(_ERROR) if lines else ""

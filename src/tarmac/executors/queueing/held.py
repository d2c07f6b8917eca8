"""The attempts that an executor holds, and the chunks that contain them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator

from tarmac.executors.interface import Attempt
from tarmac.executors.queueing.chunks import ChunkRecord
from tarmac.executors.queueing.engine import UnitName
from tarmac.executors.queueing.verdict import Evidence

# Only this many waiting units of a chunk have their records read, the first ones. Engines start
# units mostly in order, and looking for a missing file costs a network file system as much as
# reading one. The executor also reports only for these units why they wait.
MAX_TOLD = 16


@dataclasses.dataclass(eq=False)
class SubmittedAttempt:
    """An attempt that has not finished.

    Attributes:
        attempt: Attempt that has not finished.
        index: Number of its element in its chunk, from 0.
        evidence: Evidence on its state, from its record and the engine.
        has_begun: Whether its start was reported since it was last queued.
        began_at: Time at which its start was reported, by the monotonic clock; 0 before.
        restart: Restart number of the record whose start was reported last.
        reported_reason: Reason for waiting that was last reported; empty for none.
        requeued_when: End of the try that the engine requeued last, as the engine writes the time.
    """

    attempt: Attempt
    index: int = 0
    evidence: Evidence = dataclasses.field(default_factory=Evidence)
    has_begun: bool = False
    began_at: float = 0.0
    restart: int = 0
    reported_reason: str = ""
    requeued_when: str = ""

    @property
    def key(self) -> tuple[int, int]:
        """The task's index and the attempt's number."""
        return self.attempt.task.index, self.attempt.number

    def was_requeued(self, restart: int) -> bool:
        """Return whether the engine has requeued the attempt since this restart began."""
        return not self.has_begun and self.began_at > 0 and restart <= self.restart


def evidence_of(record: ChunkRecord, index: int) -> Evidence:
    """Return the initial evidence on an element of a chunk."""
    first = index // record.per_unit * record.per_unit
    num_in_unit = min(record.per_unit, len(record.attempts) - first)
    return Evidence(beat_at=time.monotonic(), shares_unit=num_in_unit > 1, follows=index > first)


@dataclasses.dataclass(eq=False)
class SubmittedChunk:
    """A chunk that an engine has, or may have.

    Attributes:
        record: Record of the chunk, as its file has it.
        flights: Attempts that have not finished, by the number of their element.
        most_at_once: Most units that the engine may run at once; None where no limit was set.
        avoided: Hosts that the engine avoids for this chunk.
        looks: Number of searches without success, while it is unknown whether the engine has the
            chunk.
        look_at: Time of the next search, by the monotonic clock.
    """

    record: ChunkRecord
    flights: dict[int, SubmittedAttempt]
    most_at_once: int | None = None
    avoided: frozenset[str] = frozenset()
    looks: int = 0
    look_at: float = 0.0

    def __post_init__(self) -> None:
        self._unclaimed: dict[int, dict[int, None]] = {}
        for index in self.flights:
            self._unclaimed.setdefault(index // self.record.per_unit, {})[index] = None
        self._claimed: set[int] = set()
        for index, flight in self.flights.items():
            first = self.flights.get(index // self.record.per_unit * self.record.per_unit)
            if flight.evidence.follows and first is not None:
                flight.evidence.first = first.evidence

    @property
    def is_submitted(self) -> bool:
        """Whether the engine is known to have the chunk."""
        return self.record.state == "submitted"

    def unit_of(self, index: int) -> UnitName:
        """Return the unit of an element."""
        return UnitName(self.record.number, index // self.record.per_unit)

    def num_units(self) -> int:
        """Return the number of its units that are not over."""
        if self.record.per_unit == 1:
            return len(self.flights)
        return len({index // self.record.per_unit for index in self.flights})

    def num_waiting(self) -> int:
        """Return the number of its units without any record."""
        return sum(
            len(waiting) == self._size(unit) for unit, waiting in self._unclaimed.items() if waiting
        )

    def is_last_of_unit(self, index: int) -> bool:
        """Return whether no other element of an element's unit is left."""
        first = index // self.record.per_unit * self.record.per_unit
        others = range(first, first + self.record.per_unit)
        return not any(other in self.flights and other != index for other in others)

    def claim(self, index: int) -> None:
        """Note that an element has a record."""
        waiting = self._unclaimed.get(index // self.record.per_unit)
        if waiting is not None and index in waiting:
            del waiting[index]
            if not waiting:
                del self._unclaimed[index // self.record.per_unit]
        self._claimed.add(index)

    def forget(self, index: int) -> None:
        """Note that an element has finished."""
        self.claim(index)
        self._claimed.discard(index)
        del self.flights[index]

    def at_work(self) -> list[SubmittedAttempt]:
        """Return the attempts that have records."""
        return [self.flights[index] for index in sorted(self._claimed)]

    def next_waiting(self) -> list[SubmittedAttempt]:
        """Return the first waiting attempts; engines report the same reason for all others."""
        return next(self.next_to_begin(), [])

    def next_to_begin(self) -> Iterator[list[SubmittedAttempt]]:
        """Yield attempts whose records may have appeared, in portions.

        The caller takes another portion only if the one before had a record.
        """
        seen: set[int] = set()
        while True:
            portion = []
            for waiting in self._unclaimed.values():
                index = next(iter(waiting))
                if index not in seen:
                    portion.append(self.flights[index])
                    seen.add(index)
                if len(portion) == MAX_TOLD:
                    break
            if not portion:
                return
            yield portion

    def _size(self, unit: int) -> int:
        first = unit * self.record.per_unit
        return min(self.record.per_unit, len(self.record.attempts) - first)

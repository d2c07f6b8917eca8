"""The queue of tasks that wait for an instance of their algorithm."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import heapq
from collections.abc import Iterator

from tarmac.hkube.hosting.interface import Ending, Work
from tarmac.hkube.hosting.needs import callers_of

# A sort key; the smaller key goes first.
Order = tuple[int, bool, int]


@dataclasses.dataclass(eq=False, slots=True)
class Entry:
    """A task in a host.

    Attributes:
        work: Task that the host was asked to run.
        future: Resolves with the ending of the task.
        order: Sort key: priority, then called tasks before others, then arrival.
        attempts: Number of attempts started so far. Default 0.
        is_queued: Whether the task waits for an instance. Default: False.
    """

    work: Work
    future: asyncio.Future[Ending]
    order: Order
    attempts: int = 0
    is_queued: bool = False

    @classmethod
    def of(cls, work: Work, future: asyncio.Future[Ending], number: int) -> Entry:
        """Return an entry for a task with its arrival number."""
        return cls(work, future, (-work.priority, work.caller is None, number))


class Waiting:
    """A priority queue of entries that skips removed entries.

    Attributes:
        callers: Number of queued entries that each calling task waits for, by the caller's index.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Order, Entry]] = []
        self._num = 0
        self.callers: collections.Counter[int] = collections.Counter()

    def __len__(self) -> int:
        return self._num

    def __iter__(self) -> Iterator[Entry]:
        """Yield the queued entries, in no order."""
        return (entry for _, entry in self._heap if entry.is_queued)

    def push(self, entry: Entry) -> None:
        """Add an entry."""
        entry.is_queued = True
        heapq.heappush(self._heap, (entry.order, entry))
        self._num += 1
        self.callers.update(caller.index for caller in callers_of(entry.work))

    def first(self) -> Entry | None:
        """Return the first entry without removing it."""
        while self._heap and not self._heap[0][1].is_queued:
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def pop(self) -> Entry | None:
        """Remove and return the first entry."""
        entry = self.first()
        if entry is not None:
            heapq.heappop(self._heap)
            self.remove(entry)
        return entry

    def remove(self, entry: Entry) -> None:
        """Remove an entry at any position."""
        entry.is_queued = False
        self._num -= 1
        for caller in callers_of(entry.work):
            self.callers[caller.index] -= 1
            if not self.callers[caller.index]:
                del self.callers[caller.index]

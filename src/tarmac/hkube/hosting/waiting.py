"""Tasks that wait for an instance of their algorithm, in the order in which they go."""

from __future__ import annotations

import collections
import dataclasses
import heapq
from typing import TYPE_CHECKING

from tarmac.hkube.hosting.needs import callers_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from tarmac.hkube.hosting.interface import Ending, Work

# The smaller goes first.
Order = tuple[int, bool, int]


@dataclasses.dataclass(eq=False, slots=True)
class Entry:
    """A task on its way through the host.

    Attributes:
        work: Task that the host was asked to run.
        future: Resolves with the ending of the task.
        order: Its place: by priority, what an algorithm waits for before the rest, as it came.
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
        """Return an entry that has come as the given one."""
        return cls(work, future, (-work.priority, work.caller is None, number))


class Waiting:
    """A queue of entries; what is done, because it was cancelled, is passed over.

    Attributes:
        callers: The numbers of the tasks that wait for some of them, and for how many each.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Order, Entry]] = []
        self._num = 0
        self.callers: collections.Counter[int] = collections.Counter()

    def __len__(self) -> int:
        return self._num

    def __iter__(self) -> Iterator[Entry]:
        """Yield what waits, in no order."""
        return (entry for _, entry in self._heap if entry.is_queued)

    def push(self, entry: Entry) -> None:
        """Add one."""
        entry.is_queued = True
        heapq.heappush(self._heap, (entry.order, entry))
        self._num += 1
        self.callers.update(caller.index for caller in callers_of(entry.work))

    def first(self) -> Entry | None:
        """Return the one that goes first, and leave it."""
        while self._heap and not self._heap[0][1].is_queued:
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def pop(self) -> Entry | None:
        """Take the one that goes first."""
        entry = self.first()
        if entry is not None:
            heapq.heappop(self._heap)
            self.remove(entry)
        return entry

    def remove(self, entry: Entry) -> None:
        """Take one, wherever it is."""
        entry.is_queued = False
        self._num -= 1
        for caller in callers_of(entry.work):
            self.callers[caller.index] -= 1
            if not self.callers[caller.index]:
                del self.callers[caller.index]

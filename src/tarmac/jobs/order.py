"""The queue of runnable tasks, by dependencies, priority and place in the job file."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.tasks.plan import Task


class Order:
    """A queue of the tasks whose dependencies have succeeded.

    Tasks with GPUs have a queue of their own: a lack of GPUs does not hold back other tasks.

    Args:
        tasks: Tasks in the order of the file, without the task that follows all others.
        done: Numbers of tasks that have succeeded already.
        active: Numbers of tasks that are running or queued in an engine already.
    """

    def __init__(
        self, tasks: Sequence[Task], done: set[int], active: Collection[int] = frozenset()
    ) -> None:
        self._ready: dict[bool, list[tuple[int, int, Task]]] = {False: [], True: []}
        self._left = Counter(task.spec for task in tasks if task.index not in done)
        self._waiting: dict[str, list[Task]] = {}
        self._missing: dict[int, int] = {}
        self._broken: set[str] = set()
        for task in tasks:
            if task.index in done or task.index in active:
                continue
            missing = [spec for spec in task.needs if self._left[spec]]
            if not missing:
                self.push(task)
                continue
            self._missing[task.index] = len(missing)
            for spec in missing:
                self._waiting.setdefault(spec, []).append(task)

    def push(self, task: Task) -> None:
        """Queue a task."""
        needs_gpus = task.resources.gpus > 0
        heapq.heappush(self._ready[needs_gpus], (-task.priority, task.index, task))

    def first(self, *, without_gpus: bool = False) -> Task | None:
        """Return the first task without removing it; None from an empty queue.

        Args:
            without_gpus: Whether to consider only tasks without GPUs. Default False.
        """
        queues = [self._ready[False]] if without_gpus else [*self._ready.values()]
        heads = [queue[0] for queue in queues if queue]
        if not heads:
            return None
        return min(heads, key=lambda head: head[:2])[2]

    def take(self, task: Task) -> None:
        """Remove the task that `first` returned."""
        _, _, taken = heapq.heappop(self._ready[task.resources.gpus > 0])
        assert taken is task

    def take_first(self, most: int) -> list[Task]:
        """Remove and return the first tasks.

        Args:
            most: Maximum number of tasks to take.
        """
        taken: list[Task] = []
        while len(taken) < most and (task := self.first()) is not None:
            self.take(task)
            taken.append(task)
        return taken

    def clear(self) -> None:
        """Remove all tasks that are queued or wait for others."""
        for queue in self._ready.values():
            queue.clear()
        self._missing.clear()

    def succeeded(self, task: Task) -> None:
        """Queue the tasks whose last missing dependency is this task."""
        self._left[task.spec] -= 1
        if self._left[task.spec]:
            return
        for other in self._waiting.pop(task.spec, ()):
            # Another dependency of it may have failed before.
            if other.index in self._missing:
                self._missing[other.index] -= 1
                if not self._missing[other.index]:
                    del self._missing[other.index]
                    self.push(other)

    def failed(self, task: Task) -> Iterator[tuple[Task, str]]:
        """Yield the tasks that cannot run after a failure, with the failed dependency of each.

        These are the direct and indirect dependents of `task`.
        """
        if task.spec in self._broken:
            return
        specs = [task.spec]
        while specs:
            broken = specs.pop()
            self._broken.add(broken)
            for other in self._waiting.pop(broken, ()):
                if self._missing.pop(other.index, None) is None:
                    continue
                yield other, broken
                if other.spec not in self._broken:
                    specs.append(other.spec)

    def __bool__(self) -> bool:
        """Whether a task is queued."""
        return any(self._ready.values())

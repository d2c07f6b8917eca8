"""The progress of a node: its created and ended tasks with their outcomes."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import Any

from tarmac.hkube.pipelines.interface import NodeFailure


class Progress:
    """The progress of a node.

    Attributes:
        followed: Batch indices of the node's tasks, by the batch index of the leader's task that
            they follow.
        is_expanded: Whether the node has created all its tasks.
        num_expected: Number of tasks that the node makes in all. None until it is known.
        num_made: Number of tasks that are made so far.
        num_ended: Number of tasks that have ended, failed ones included.
        num_failed: Number of tasks that have failed.
        last_failure: Message of the last task that failed. Empty if no task has failed.
        ended: Results and failures by batch index; the index is None if the node is no batch.
            Emptied when no node needs them any more.
        settled: Values that are the same for all tasks, by the number of the template's place.
    """

    def __init__(self) -> None:
        self.followed: dict[int, range] = {}
        self.is_expanded = False
        self.num_expected: int | None = None
        self.num_made = 0
        self.num_ended = 0
        self.num_failed = 0
        self.last_failure = ""
        self.ended: dict[int | None, Any] = {}
        self.settled: dict[int, Any] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the node has created all its tasks and all have ended."""
        return self.is_expanded and self.num_ended == self.num_made

    def end(self, index: int | None, outcome: Any) -> None:
        """Note a task's end.

        Args:
            index: The task's batch index.
            outcome: Result of the task, or a `NodeFailure`.
        """
        self.num_ended += 1
        if isinstance(outcome, NodeFailure):
            self.num_failed += 1
            self.last_failure = outcome.message
        self.ended[index] = outcome

    def has_ended(self, index: int) -> bool:
        """Whether the task with an index has ended, or will never exist."""
        return index in self.ended or self.is_complete

    def indices(self) -> Iterator[int | None]:
        """Yield the indices of ended tasks, in an order that does not depend on time.

        If several tasks follow a leader's task, their indices depend on which leader ended first.
        """
        if self.followed:
            for leader in sorted(self.followed):
                yield from (index for index in self.followed[leader] if index in self.ended)
        else:
            yield from sorted(self.ended, key=lambda index: index or 0)

    def results(self) -> list[Any]:
        """Return the results of the tasks that succeeded, in the order of `indices`."""
        outcomes = [self.ended[index] for index in self.indices()]
        return [outcome for outcome in outcomes if not isinstance(outcome, NodeFailure)]


def failed_percent(num_failed: int, num_tasks: int) -> int:
    """Return the percentage of failed tasks, rounded as in HKube.

    Source: JavaScript's ``toFixed(0)`` in kube-HPC/hkube at 261d3d06,
    core/pipeline-driver/lib/tasks/task-runner.js, which rounds half up.

    Example:
        >>> failed_percent(1, 8), failed_percent(1, 3)
        (13, 33)
    """
    share = decimal.Decimal(num_failed / num_tasks * 100)
    return int(share.to_integral_value(decimal.ROUND_HALF_UP))


def excess_of_failures(progress: Progress, tolerance: int) -> str | None:
    """Return why a batch has failed as a whole; None if it has not.

    Args:
        progress: Progress of a batch node. While ``num_expected`` is None, failures count as 0
            percent.
        tolerance: Percent of failed tasks at which the batch fails.
    """
    if not progress.num_failed:
        return None
    percent, failures = 0, f"{progress.num_failed} failed tasks"
    if progress.num_expected is not None:
        percent = failed_percent(progress.num_failed, progress.num_expected)
        failures = f"{progress.num_failed}/{progress.num_expected} ({percent}%) failed tasks"
    if percent < tolerance:
        return None
    return f"{failures}, batch tolerance is {tolerance}%, error: {progress.last_failure}"

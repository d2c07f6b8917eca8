"""How far a node is: which of its tasks were made, which have ended and how."""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

from tarmac.hkube.pipelines.interface import NodeFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


class Progress:
    """How far a node is.

    Attributes:
        followed: Batch indices of its tasks by those of the leaders' tasks that they follow.
        is_expanded: Whether it makes no more tasks.
        num_expected: Number of tasks that the node makes in all. None until it is known.
        num_made: Number of tasks that are made so far.
        num_ended: Number of tasks that have ended, failed ones included.
        num_failed: Number of tasks that have failed.
        last_failure: Message of the last task that failed. Empty if no task has failed.
        ended: Results and failures by batch index, None where the node is no batch. Empty again
            once nobody takes them any more.
        settled: Values of places that are the same for all its tasks, by number.
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
        """Whether all its tasks were made and have ended."""
        return self.is_expanded and self.num_ended == self.num_made

    def end(self, index: int | None, outcome: Any) -> None:
        """Note a task's end.

        Args:
            index: The task's batch index.
            outcome: Its result, or a `NodeFailure`.
        """
        self.num_ended += 1
        if isinstance(outcome, NodeFailure):
            self.num_failed += 1
            self.last_failure = outcome.message
        self.ended[index] = outcome

    def has_ended(self, index: int) -> bool:
        """Whether there will be no other outcome with that index, or none at all."""
        return index in self.ended or self.is_complete

    def indices(self) -> Iterator[int | None]:
        """Yield the indices of the tasks that have ended, in an order that does not depend on time.

        Where several tasks follow one, their indices depend on which has ended first.
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
    """Return the share of failed tasks in per cent, rounded as HKube does.

    Source: JavaScript's ``toFixed(0)`` in kube-HPC/hkube at 261d3d06,
    core/pipeline-driver/lib/tasks/task-runner.js: of two integers as near, the larger one.

    Example:
        >>> failed_percent(1, 8), failed_percent(1, 3)
        (13, 33)
    """
    share = decimal.Decimal(num_failed / num_tasks * 100)
    return int(share.to_integral_value(decimal.ROUND_HALF_UP))


def excess_of_failures(progress: Progress, tolerance: int) -> str | None:
    """Return why a batch has failed as a whole, or None where it has not.

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

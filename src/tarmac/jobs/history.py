"""The attempts of earlier runners of a run, for its next runner."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tarmac.executors import DISTURBANCES, Cause
from tarmac.jobs.journal import read_journal


@dataclasses.dataclass(slots=True)
class TaskHistory:
    """The attempts of a task.

    Attributes:
        last: Number of the last attempt; 0 without an attempt.
        reached: Number of the last attempt that began or that an engine accepted.
        settled: Number of the last attempt whose end is recorded.
        spent: Number of retries used since the task last ended, or was first tried.
        disturbances: Number of disturbed attempts in the same time.
        has_succeeded: Whether the task needs no other attempt.
    """

    last: int = 0
    reached: int = 0
    settled: int = 0
    spent: int = 0
    disturbances: int = 0
    has_succeeded: bool = False

    def note(self, event: dict[str, Any]) -> None:
        """Add an event of the run's journal."""
        number = event.get("attempts" if event["event"] == "ended" else "attempt", 0)
        self.last = max(self.last, number)
        if event["event"] in ("queued", "started"):
            self.reached = max(self.reached, number)
        elif event["event"] == "retried":
            cause, goes_on = event.get("cause"), event.get("goes_on", False)
            # An attempt that was never submitted before its runner ended was not disturbed.
            is_unsubmitted = cause in DISTURBANCES and number > self.reached
            self.count(number, cause, goes_on=goes_on or is_unsubmitted)
        elif event["event"] == "ended":
            self.settled, self.spent, self.disturbances = self.last, 0, 0
            self.has_succeeded |= event["outcome"] == "succeeded"

    def count(self, number: int, cause: Cause | None, *, goes_on: bool) -> None:
        """Count an attempt that another attempt follows.

        Args:
            number: Number of the attempt that has ended.
            cause: Kind of failure; a disturbance spends no retry.
            goes_on: Whether the attempt counts neither as failed nor as disturbed.
        """
        self.last, self.settled = max(self.last, number), max(self.settled, number)
        if not goes_on:
            is_disturbed = cause in DISTURBANCES
            self.disturbances += is_disturbed
            self.spent += not is_disturbed

    def renew(self, *, keeps_numbers: bool) -> None:
        """Give a task all its retries again.

        Args:
            keeps_numbers: Whether no later attempt may have the number of an earlier one.
        """
        self.spent = self.disturbances = 0
        if not keeps_numbers:
            self.last = self.reached = self.settled = 0


@dataclasses.dataclass(frozen=True)
class History:
    """The tasks of a run by their numbers."""

    tasks: dict[int, TaskHistory]

    @property
    def done(self) -> set[int]:
        """The numbers of the tasks that have succeeded."""
        return {index for index, task in self.tasks.items() if task.has_succeeded}

    def of(self, index: int) -> TaskHistory:
        """Return the history of a task, to read and to change; empty if it was never tried."""
        return self.tasks.setdefault(index, TaskHistory())


def read_history(
    journal: Path, *, ignores: Callable[[dict[str, Any]], bool] = lambda _: False
) -> History:
    """Read the history of a run from its journal.

    Args:
        journal: Path of the journal; a missing file is an empty history.
        ignores: Returns whether to leave an event out. Default: none is.

    Raises:
        StorageError: The journal cannot be read.
        TarmacError: A line of the journal is damaged.
    """
    tasks: dict[int, TaskHistory] = {}
    for event in read_journal(journal) if journal.exists() else ():
        if not ignores(event):
            tasks.setdefault(event["task"], TaskHistory()).note(event)
    return History(tasks)

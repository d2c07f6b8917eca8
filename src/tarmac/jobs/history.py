"""The attempts of earlier runners of a run, for its next runner."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tarmac.executors import DISTURBANCES
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
            self.settled = max(self.settled, number)
            if event.get("cause") in DISTURBANCES:
                # An attempt that was never submitted before its runner ended was not disturbed.
                self.disturbances += number <= self.reached
            elif not event.get("goes_on"):
                self.spent += 1
        elif event["event"] == "ended":
            self.settled, self.spent, self.disturbances = self.last, 0, 0
            self.has_succeeded |= event["outcome"] == "succeeded"


@dataclasses.dataclass(frozen=True)
class History:
    """The tasks of a run by their numbers, without tasks that were never tried."""

    tasks: dict[int, TaskHistory]

    @property
    def done(self) -> set[int]:
        """The numbers of the tasks that have succeeded."""
        return {index for index, task in self.tasks.items() if task.has_succeeded}

    def of(self, index: int) -> TaskHistory:
        """Return the history of a task; empty for a task that was never tried."""
        return self.tasks.get(index) or TaskHistory()


def read_history(journal: Path) -> History:
    """Read the history of a run from its journal.

    Args:
        journal: Path of the journal; a missing file is an empty history.

    Raises:
        StorageError: The journal cannot be read.
        TarmacError: A line of the journal is damaged.
    """
    tasks: dict[int, TaskHistory] = {}
    for event in read_journal(journal) if journal.exists() else ():
        tasks.setdefault(event["task"], TaskHistory()).note(event)
    return History(tasks)

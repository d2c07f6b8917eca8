"""What earlier sessions of a run have come to, as its next one needs to know it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tarmac.jobs.executors import DISTURBANCES
from tarmac.jobs.journal import read_journal

if TYPE_CHECKING:
    from pathlib import Path


@dataclasses.dataclass(slots=True)
class TaskHistory:
    """The attempts of a task.

    Attributes:
        last: The number of the last one; 0 where there was none.
        reached: The number of the last one that an engine has had, or that has begun.
        settled: The number of the last one whose end is on record.
        spent: How many retries have been spent since the task ended, or was first tried.
        disturbances: How many attempts were disturbed since then.
        has_succeeded: Whether it needs no other attempt.
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
                # One that only waited to be submitted when its session ended was not disturbed.
                self.disturbances += number <= self.reached
            elif not event.get("goes_on"):
                self.spent += 1
        elif event["event"] == "ended":
            self.settled, self.spent, self.disturbances = self.last, 0, 0
            self.has_succeeded |= event["outcome"] == "succeeded"


@dataclasses.dataclass(frozen=True)
class History:
    """The tasks of a run, by their numbers; those that were never tried are not among them."""

    tasks: dict[int, TaskHistory]

    @property
    def done(self) -> set[int]:
        """The numbers of the tasks that have succeeded."""
        return {index for index, task in self.tasks.items() if task.has_succeeded}

    def of(self, index: int) -> TaskHistory:
        """Return a task's."""
        return self.tasks.get(index) or TaskHistory()


def read_history(journal: Path) -> History:
    """Read what a run's journal tells of earlier sessions.

    Args:
        journal: Its file; where there is none nothing has happened.

    Raises:
        StorageError: It cannot be read.
        TarmacError: A line is damaged.
    """
    tasks: dict[int, TaskHistory] = {}
    for event in read_journal(journal) if journal.exists() else ():
        tasks.setdefault(event["task"], TaskHistory()).note(event)
    return History(tasks)

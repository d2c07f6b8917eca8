"""One try of a task, and the ways in which it can end."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.jobs.plan import Task

Outcome = Literal["succeeded", "failed", "skipped", "interrupted"]

# Where `tarmac train` makes its run in the directory that it is started in.
_RUNS = "runs"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One try of a task.

    Attributes:
        task: The task that is tried.
        number: Number of the attempt, from 1. Queued attempts of a task never share a number within
            a run.
        directory: Gets ``stdout``, ``stderr`` and ``work/``, the task's working directory. Later
            attempts add to what earlier ones have printed.
        free: Number of earlier attempts that spent no retry: disturbed ones, and those of earlier
            sessions.
    """

    task: Task
    number: int
    directory: Path
    free: int = 0

    @property
    def kept(self) -> str:
        """What of the working directory outlives each attempt; empty where nothing must."""
        return _RUNS if self.task.trains else ""

    @property
    def launch(self) -> str:
        """A name for all attempts of the task, and for no other task of any run."""
        return f"{self.directory.parents[1].name}/{self.task.index}"

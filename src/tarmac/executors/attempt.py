"""One attempt of a task, and its possible outcomes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from tarmac.tasks.plan import Task

Outcome = Literal["succeeded", "failed", "skipped", "interrupted"]

# `tarmac train` makes its run here, in its working directory.
_RUNS = "runs"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One attempt of a task.

    Attributes:
        task: Task that the attempt runs.
        number: Number of the attempt, from 1. Queued attempts of a task never share a number within
            a run.
        directory: Gets ``stdout``, ``stderr`` and ``work/``, the task's working directory. Later
            attempts append to the output of earlier ones.
        free: Number of earlier attempts that spent no retry: disturbed attempts, and those of
            earlier sessions.
    """

    task: Task
    number: int
    directory: Path
    free: int = 0

    @property
    def kept(self) -> str:
        """Name in the working directory that outlives each attempt; empty for none."""
        return _RUNS if self.task.trains else ""

    @property
    def launch(self) -> str:
        """A name shared by all attempts of the task, unique among the tasks of all runs."""
        return f"{self.directory.parents[1].name}/{self.task.index}"

"""Tasks that are too short for a job of a cluster's each: seen by the first that end."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.jobs import Ended

# So many tell what the others are like; with fewer left, nothing is to be gained.
_FIRST = 50
_SHORT_S = 30.0

# A job that takes minutes spends little of it on its own beginning.
_JOB_S = 300.0
_MAX_PER_JOB = 100


class ShortTasks:
    """Finds out whether the tasks of a run on Slurm had better share jobs.

    Args:
        num_tasks: Total number of tasks in the run.
    """

    def __init__(self, num_tasks: int) -> None:
        self._left = num_tasks
        self._seconds: list[float] = []

    def note(self, ended: Ended) -> str:
        """Take note of how a task ended; what to do about short ones, once that is known."""
        self._left -= 1
        if len(self._seconds) == _FIRST or ended.exit_code is None or not ended.host:
            return ""
        if ended.task.options.get("slurm", {}).get("per_job", 1) > 1:
            return ""
        self._seconds.append(ended.seconds)
        if len(self._seconds) < _FIRST or self._left < _FIRST:
            return ""
        median_s = statistics.median(self._seconds)
        if median_s >= _SHORT_S:
            return ""
        per_job = min(_MAX_PER_JOB, max(2, round(_JOB_S / max(median_s, 1e-3))))
        return (
            f"the first {_FIRST} tasks took {median_s:.1f} s each, less than beginning a job may "
            f"take: several share one with --set options.slurm.per_job={per_job}"
        )

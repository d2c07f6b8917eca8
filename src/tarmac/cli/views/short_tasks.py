"""A hint about tasks that are too short for a cluster's job each, after the first have ended."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.jobs import Ended

# Tasks that represent all others; with fewer tasks left, a hint gains nothing.
_FIRST = 50
_SHORT_S = 30.0

# A job of minutes spends little of its time on its own start.
_JOB_S = 300.0
_MAX_PER_JOB = 100


class ShortTasks:
    """A check whether tasks of a run on Slurm should share jobs.

    Args:
        num_tasks: Total number of tasks in the run.
    """

    def __init__(self, num_tasks: int) -> None:
        self._left = num_tasks
        self._seconds: list[float] = []

    def note(self, ended: Ended) -> str:
        """Record an ended task; return the hint if it is known now, else an empty text."""
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
            f"the first {_FIRST} tasks took {median_s:.1f} s each, less than a job may need to "
            f"start. To run several in one job: --set options.slurm.per_job={per_job}"
        )

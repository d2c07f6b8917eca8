"""The time that a worker has left, by its own limit and by its cluster's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

# A cluster may ask a job to end up to two minutes early: Slurm checks once a minute, and its
# warning is due a minute before the end (sbatch(1), --signal).
_EARLY_S = 120.0
# A worker with a short limit may use at least this share of it.
_LEAST_SHARE = 0.5


def time_left(limit_s: float | None, environment: Mapping[str, str]) -> Callable[[], float]:
    """Return a function that returns a worker's seconds left; infinity without a limit.

    Args:
        limit_s: Seconds from now that it may work; None for no limit.
        environment: Environment variables; Slurm sets ``SLURM_JOB_END_TIME``, in seconds since
            1970, but not in version 22.05.
    """
    ends: list[float] = []
    if limit_s is not None:
        ends.append(limit_s)
    end = environment.get("SLURM_JOB_END_TIME", "")
    if end.isdigit():
        ends.append(max(0.0, int(end) - time.time()))
    if not ends:
        return lambda: math.inf
    whole_s = min(ends)
    usable_s = max(whole_s - _EARLY_S, whole_s * _LEAST_SHARE)
    began = time.monotonic()
    return lambda: usable_s - (time.monotonic() - began)

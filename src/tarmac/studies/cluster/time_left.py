"""How long a worker may still work, by what it was told and by what its cluster says."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A cluster asks a job to end up to two minutes early: Slurm looks once a minute, and its warning is
# meant to come a minute before the end (sbatch(1), --signal).
_EARLY_S = 120.0
# Of a short time, a worker has this much all the same.
_LEAST_SHARE = 0.5


def time_left(limit_s: float | None, environment: Mapping[str, str]) -> Callable[[], float]:
    """Return a function that says how many seconds a worker has left; infinitely many without end.

    Args:
        limit_s: Seconds from now that it may work; None for no such limit.
        environment: With ``SLURM_JOB_END_TIME`` where Slurm says it, in seconds since 1970; 22.05
            does not.
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

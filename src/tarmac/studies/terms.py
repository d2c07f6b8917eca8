"""The terms on which a process works on a study: alone, or as one of several workers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

# Why a process leaves a study: the study is concluded, a stop was requested, other workers hold
# the remaining trials, or the time left is too short for another trial.
Leave = Literal["concluded", "stopped", "others", "time"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """The share of a study's trials that a process takes, and its time limit.

    Attributes:
        workers: Number of workers that share the study. Each takes its share of the waiting
            trials, and leaves once the others hold the rest. None: take all trials, and stay to
            the end.
        time_left_s: Returns the seconds left to work; a training that takes longer is not
            started. Default: unlimited.
    """

    workers: int | None = None
    time_left_s: Callable[[], float] = lambda: math.inf

    @property
    def leaves_the_rest(self) -> bool:
        """Whether the process leaves once other workers hold the remaining trials."""
        return self.workers is not None


ALONE = Terms()

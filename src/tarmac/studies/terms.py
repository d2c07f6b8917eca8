"""On what terms a process works on a study: alone, or as one of several workers."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

# Why a process leaves a study: it is concluded, it was told to stop, other workers have what is
# left of it, or the worker's time is too short for what comes next.
Leave = Literal["concluded", "stopped", "others", "time"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """What a process takes of a study, and until when it stays.

    Attributes:
        workers: How many share it. Each takes its share of what waits, and leaves once the others
            have the rest. None for a process that may take all, and stays to the end.
        time_left_s: How long it may still work, in seconds: nothing is begun that takes longer.
    """

    workers: int | None = None
    time_left_s: Callable[[], float] = lambda: math.inf

    @property
    def leaves_the_rest(self) -> bool:
        """Whether it leaves once others have what is left."""
        return self.workers is not None


ALONE = Terms()

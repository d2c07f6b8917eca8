"""How long the host has waited for the batches that a feed hands over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


class TimedBatches:
    """Passes on what a feed hands over, and counts the time until it does.

    Two looks at a clock for each call of a `StepRunner`: some 0.2 µs.

    Args:
        batches: Batches that a feed yields.

    Attributes:
        seconds: Spent in it so far: gathering samples, or waiting for the threads that do.
    """

    __slots__ = ("_batches", "seconds")

    def __init__(self, batches: Iterator[tuple[torch.Tensor, ...]]) -> None:
        self._batches = batches
        self.seconds = 0.0

    def __iter__(self) -> TimedBatches:
        """Return itself."""
        return self

    def __next__(self) -> tuple[torch.Tensor, ...]:
        """Return the next batch."""
        started = time.perf_counter()
        try:
            return next(self._batches)
        finally:
            self.seconds += time.perf_counter() - started

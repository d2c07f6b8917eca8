"""The time for which the host waits for a feed's batches."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch


class TimedBatches:
    """An iterator over a feed's batches that measures the time until each is ready.

    It reads the clock twice for each call of a `StepRunner`, which takes some 0.2 µs.

    Args:
        batches: Batches that a feed yields.

    Attributes:
        seconds: Seconds so far in which the host gathered samples, or waited for the threads that
            do.
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

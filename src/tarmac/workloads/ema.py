"""A moving average of the weights, which is scored and written instead of the weights."""

from __future__ import annotations

import dataclasses

from tarmac.errors import RequestError
from tarmac.workloads.naming import Named


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ema(metaclass=Named):
    """An exponential moving average of the weights.

    ``average = d average + (1 - d) w`` with ``d = min(decay, n / (n + 10))``, where ``n`` is the
    number of earlier updates. The smaller first ``d``, similar to TensorFlow's
    ExponentialMovingAverage, soon removes the initial weights from the average. Buffers, such as
    running statistics, keep their newest values.

    Attributes:
        decay: Decay per update, at least 0 and below 1. 0.999 averages over some 1000 updates.
        every: Steps from one update to the next, at least 1. Default 1.
    """

    decay: float
    every: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise RequestError(f"ema.decay is {self.decay}, expected at least 0 and below 1")
        if self.every < 1:
            raise RequestError(f"ema.every is {self.every}, expected at least 1")

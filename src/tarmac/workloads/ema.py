"""An average of the weights over a training, which is scored and written instead of them."""

from __future__ import annotations

import dataclasses

from tarmac.errors import RequestError
from tarmac.workloads.naming import Named


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ema(metaclass=Named):
    """An exponential moving average of the weights.

    ``average = d average + (1 - d) w`` with ``d = min(decay, n / (n + 10))`` where ``n`` averagings
    went before, much as in TensorFlow's ExponentialMovingAverage, so that the first weights do not
    linger in it. Buffers, such as running statistics, are the newest.

    Attributes:
        decay: At least 0 and below 1; 0.999 remembers some 1000 averagings.
        every: From how many steps to how many the weights are taken; at least 1.
    """

    decay: float
    every: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise RequestError(f"ema.decay is {self.decay}, expected at least 0 and below 1")
        if self.every < 1:
            raise RequestError(f"ema.every is {self.every}, expected at least 1")

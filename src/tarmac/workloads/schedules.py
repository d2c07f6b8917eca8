"""Learning-rate schedules: pure functions of how far the training has come."""

from __future__ import annotations

import dataclasses
from typing import Protocol

__all__ = ["Constant", "OneCycle", "Schedule"]


class Schedule(Protocol):
    """Scales the optimizer's learning rate over a training."""

    def factor(self, progress: float) -> float:
        """Return what to multiply the rate with, at ``progress`` from 0.0 up to 1.0 (the end)."""
        ...


@dataclasses.dataclass(frozen=True)
class Constant:
    """The optimizer's rate throughout."""

    def factor(self, progress: float) -> float:  # noqa: ARG002 - the protocol's signature
        """Return 1."""
        return 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneCycle:
    """Rise linearly to the optimizer's rate, then fall linearly (Smith, arXiv 1708.07120).

    Attributes:
        warmup: The share of the training spent rising, from 0 to 1.
        start: The first factor.
        end: The last factor.
    """

    warmup: float
    start: float
    end: float

    def factor(self, progress: float) -> float:
        """Return the factor at ``progress``."""
        if progress < self.warmup:
            return self.start + (1 - self.start) * progress / self.warmup
        return 1 + (self.end - 1) * (progress - self.warmup) / (1 - self.warmup)

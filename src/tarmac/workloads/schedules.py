"""Learning-rate schedules: pure functions of how far the training has come."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from tarmac.errors import RequestError

__all__ = ["Constant", "Linear", "OneCycle", "Schedule"]


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Linear:
    """Change linearly, and stay at the end's value from then on.

    Attributes:
        start: The first factor.
        end: The last factor; 0 stops the parameters.
        until: The share of the training after which the factor is ``end``, above 0 and at most 1.
    """

    start: float = 1.0
    end: float = 0.0
    until: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.until <= 1:
            raise RequestError(f"schedule.until is {self.until}, expected above 0 and at most 1")

    def factor(self, progress: float) -> float:
        """Return the factor at ``progress``."""
        return self.start + (self.end - self.start) * min(progress / self.until, 1.0)

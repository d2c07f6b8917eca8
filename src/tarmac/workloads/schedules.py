"""Learning-rate schedules: pure functions of how far the training has come.

One that follows the losses, `Plateau`, is a function of those of the epochs that are done: they are
in the run's metrics, so that a training that goes on has the rates of one that never stopped.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tarmac.errors import RequestError
from tarmac.workloads.naming import Named

if TYPE_CHECKING:
    from collections.abc import Sequence


@runtime_checkable
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
class OneCycle(metaclass=Named):
    """Rise linearly to the optimizer's rate, then fall linearly (Smith, arXiv 1708.07120).

    Attributes:
        warmup: The share of the training spent rising, from 0 to 1.
        start: Factor of the rate at the start of the training.
        end: Factor of the rate at the end of the training.
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
class Linear(metaclass=Named):
    """Change linearly, and stay at the end's value from then on.

    Attributes:
        start: Factor of the rate at the start of the training. Default 1.
        end: Factor of the rate from ``until`` on. Default 0, which stops the parameters.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cosine(metaclass=Named):
    """Rise linearly to the optimizer's rate, then fall along half a cosine (arXiv 1608.03983).

    Attributes:
        warmup: The share of the training spent rising, at least 0 and below 1.
        start: The first factor, where there is a warm-up.
        end: Factor of the rate from ``until`` on. Default 0.
        until: The share of the training after which the factor is ``end``, above ``warmup`` and at
            most 1.
    """

    warmup: float = 0.0
    start: float = 0.0
    end: float = 0.0
    until: float = 1.0

    def __post_init__(self) -> None:
        _check_warmup(self.warmup)
        if not self.warmup < self.until <= 1:
            raise RequestError(
                f"schedule.until is {self.until}, expected above the warm-up's {self.warmup} and "
                "at most 1"
            )

    def factor(self, progress: float) -> float:
        """Return the factor at ``progress``."""
        if progress < self.warmup:
            return _rising(progress, self.warmup, self.start)
        done = min((progress - self.warmup) / (self.until - self.warmup), 1.0)
        return self.end + (1 - self.end) * (1 + math.cos(math.pi * done)) / 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Steps(metaclass=Named):
    """Multiply the rate again and again, each time at a point of the training.

    Attributes:
        at: The points as shares of the training, rising, each above 0 and below 1.
        ratio: What the factor is multiplied with at each, above 0.
        warmup: The share of the training in which the rate rises linearly, at least 0 and below 1.
        start: The first factor, where there is a warm-up.
    """

    at: tuple[float, ...]
    ratio: float = 0.1
    warmup: float = 0.0
    start: float = 0.0

    def __post_init__(self) -> None:
        _check_warmup(self.warmup)
        _check_ratio(self.ratio)
        if list(self.at) != sorted(set(self.at)) or not all(0 < point < 1 for point in self.at):
            raise RequestError(
                f"schedule.at is {self.at}, expected rising shares of the training, each above 0 "
                "and below 1"
            )

    def factor(self, progress: float) -> float:
        """Return the factor at ``progress``."""
        if progress < self.warmup:
            return _rising(progress, self.warmup, self.start)
        return float(self.ratio ** sum(point <= progress for point in self.at))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plateau(metaclass=Named):
    """Multiply the rate whenever the loss has ceased to fall, as PyTorch's ReduceLROnPlateau.

    The loss is that of validation where samples are held out, or else that of training.

    Attributes:
        ratio: What the factor is multiplied with, above 0 and below 1.
        patience: How many epochs in a row may go by without a lower loss; at least 0. The rate is
            lowered after the one that follows them.
        threshold: By which share of itself the lowest loss must fall for that to count.
        least: Below this the factor does not go.
        warmup: The share of the training in which the rate rises linearly, at least 0 and below 1.
        start: The first factor, where there is a warm-up.
    """

    ratio: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    least: float = 0.0
    warmup: float = 0.0
    start: float = 0.0

    def __post_init__(self) -> None:
        _check_warmup(self.warmup)
        _check_ratio(self.ratio)
        if not self.ratio < 1:
            raise RequestError(f"schedule.ratio is {self.ratio}, expected below 1")
        if self.patience < 0:
            raise RequestError(f"schedule.patience is {self.patience}, expected at least 0")

    def factor(self, progress: float) -> float:
        """Return the factor at ``progress``, before any loss is known."""
        return _rising(progress, self.warmup, self.start) if progress < self.warmup else 1.0

    def factor_after(self, losses: Sequence[float]) -> float:
        """Return what the factor is multiplied with after epochs of these losses."""
        factor, lowest, waited = 1.0, math.inf, 0
        for loss in losses:
            waited += 1
            if loss < lowest * (1 - self.threshold):
                lowest, waited = loss, 0
            if waited > self.patience:
                factor, waited = max(factor * self.ratio, self.least), 0
        return factor


def _rising(progress: float, warmup: float, start: float) -> float:
    return start + (1 - start) * progress / warmup


def _check_warmup(warmup: float) -> None:
    if not 0 <= warmup < 1:
        raise RequestError(f"schedule.warmup is {warmup}, expected at least 0 and below 1")


def _check_ratio(ratio: float) -> None:
    if not ratio > 0:
        raise RequestError(f"schedule.ratio is {ratio}, expected above 0")

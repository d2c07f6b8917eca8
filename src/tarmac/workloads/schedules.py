"""Learning-rate schedules: pure functions of the training's progress.

`Plateau` is also a function of the losses of the completed epochs. The run's metrics hold these
losses, so a resumed training has the same rates as an uninterrupted one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tarmac.errors import RequestError
from tarmac.workloads.naming import Named


@runtime_checkable
class Schedule(Protocol):
    """A schedule that scales the optimizer's learning rate over a training."""

    def factor(self, progress: float) -> float:
        """Return the factor of the rate at ``progress`` from 0.0 to 1.0 (the end)."""
        ...


@dataclasses.dataclass(frozen=True)
class Constant:
    """A constant rate: that of the optimizer."""

    def factor(self, progress: float) -> float:  # noqa: ARG002 - the protocol's signature
        """Return 1."""
        return 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneCycle(metaclass=Named):
    """A linear rise to the optimizer's rate, then a linear fall (Smith, arXiv 1708.07120).

    Attributes:
        warmup: Share of the training in which the rate rises, from 0 to 1.
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
    """A linear change from ``start`` to ``end``, constant from ``until`` on.

    Attributes:
        start: Factor of the rate at the start of the training. Default 1.
        end: Factor of the rate from ``until`` on. Default 0, which freezes the parameters.
        until: Share of the training after which the factor is ``end``, above 0 and at most 1.
            Default 1.
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
    """A linear rise to the optimizer's rate, then a fall along half a cosine (arXiv 1608.03983).

    Attributes:
        warmup: Share of the training in which the rate rises, at least 0 and below 1. Default 0.
        start: Factor at the start of a warm-up. Default 0.
        end: Factor of the rate from ``until`` on. Default 0.
        until: Share of the training after which the factor is ``end``, above ``warmup`` and at most
            1. Default 1.
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
    """A rate that is multiplied by ``ratio`` at given points of the training.

    Attributes:
        at: Points as shares of the training, ascending, each above 0 and below 1.
        ratio: Factor of the rate at each point, above 0. Default 0.1.
        warmup: Share of the training in which the rate rises linearly, at least 0 and below 1.
            Default 0.
        start: Factor at the start of a warm-up. Default 0.
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
    """A rate that is lowered when the loss stops falling, as in PyTorch's ReduceLROnPlateau.

    The loss is the validation loss if samples are held out, else the training loss.

    Attributes:
        ratio: Factor of the rate at each plateau, above 0 and below 1. Default 0.1.
        patience: Epochs in a row without a lower loss that are tolerated, at least 0. The next such
            epoch lowers the rate. Default 10.
        threshold: Share of the lowest loss by which a loss must be lower to count. Default 1e-4.
        least: Minimum of the product of all factors. Default 0.
        warmup: Share of the training in which the rate rises linearly, at least 0 and below 1.
            Default 0.
        start: Factor at the start of a warm-up. Default 0.
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
        """Return the product of all plateau factors after epochs with these losses."""
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

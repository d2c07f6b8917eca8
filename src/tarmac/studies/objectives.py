"""What a network can be judged by, and which of several networks none of the others beats."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["OBJECTIVES", "Objective", "best_first", "front", "values_of"]


@dataclasses.dataclass(frozen=True)
class Objective:
    """A number that a training gives.

    Attributes:
        metric: Its name among a result's metrics.
        maximize: Whether more is better.
        summary: What it is.
    """

    metric: str
    maximize: bool
    summary: str


OBJECTIVES = {
    "val_accuracy": Objective("val_accuracy", True, "accuracy on held-out data, more is better"),
    "val_loss": Objective("val_loss", False, "loss on held-out data, less is better"),
    "params": Objective("num_parameters", False, "number of parameters, less is better"),
    "seconds": Objective("seconds", False, "time to train, less is better"),
    "epochs": Objective("epochs", False, "epochs trained, less is better"),
}


def values_of(names: Sequence[str], metrics: Mapping[str, float]) -> list[float]:
    """Return a result's objectives.

    Raises:
        ValueError: One is not there, or is no number.
    """
    values = [metrics.get(OBJECTIVES[name].metric, math.nan) for name in names]
    for name, value in zip(names, values, strict=True):
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}: the training diverged")
    return values


def front(points: Sequence[Sequence[float]], maximize: Sequence[bool]) -> list[int]:
    """Return the indices of the points that no other beats in every objective.

    Of equal points all are in it.

    Args:
        points: ``[point][objective]``.
        maximize: Whether more is better, by objective.
    """
    signed = [_signed(point, maximize) for point in points]
    return [
        index
        for index, one in enumerate(signed)
        if not any(_dominates(other, one) for other in signed)
    ]


def best_first(points: Sequence[Sequence[float]], maximize: Sequence[bool]) -> list[int]:
    """Return the indices of points from the best to the worst, equals in their order.

    With several objectives by non-dominated fronts, and within one by crowding distance, as in
    NSGA-II (Deb et al., 2002).
    """
    if len(maximize) == 1:
        return sorted(range(len(points)), key=lambda index: _signed(points[index], maximize))
    ranked: list[int] = []
    left = list(range(len(points)))
    while left:
        chosen = {left[index] for index in front([points[index] for index in left], maximize)}
        members = [index for index in left if index in chosen]
        crowding = _crowding([points[index] for index in members])
        ranked += [
            index
            for _, index in sorted(
                zip(crowding, members, strict=True), key=lambda pair: (-pair[0], pair[1])
            )
        ]
        left = [index for index in left if index not in chosen]
    return ranked


def _signed(point: Sequence[float], maximize: Sequence[bool]) -> tuple[float, ...]:
    """Turn every objective into one of which less is better."""
    return tuple(-value if more else value for value, more in zip(point, maximize, strict=True))


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def _crowding(points: Sequence[Sequence[float]]) -> list[float]:
    distances = [0.0] * len(points)
    for axis in range(len(points[0])):
        order = sorted(range(len(points)), key=lambda index: points[index][axis])
        low, high = points[order[0]][axis], points[order[-1]][axis]
        distances[order[0]] = distances[order[-1]] = math.inf
        for before, index, after in zip(order, order[1:], order[2:], strict=False):
            if high > low:
                gap = points[after][axis] - points[before][axis]
                distances[index] += gap / (high - low)
    return distances

"""The objectives that judge networks, and the Pareto front of several networks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from tarmac.errors import unknown_name
from tarmac.runs import Direction, JudgedBy, bare_name, name_words
from tarmac.studies.errors import FieldError


@dataclasses.dataclass(frozen=True)
class Objective:
    """A result of a training that judges its network.

    Attributes:
        name: Name of the objective in a request.
        metric: Name of the metric in a result.
        maximize: Whether more is better.
    """

    name: str
    metric: str
    maximize: bool

    @property
    def direction(self) -> Direction:
        """The better direction, ``max`` or ``min``."""
        return "max" if self.maximize else "min"


# Metrics of every training, for any workload; less is better.
COSTS = {"params": "num_parameters", "seconds": "seconds", "epochs": "epochs"}

_SUMMARIES = {
    "params": "number of parameters, less is better",
    "seconds": "time to train, less is better",
    "epochs": "epochs trained, less is better",
}
_BETTER = {"max": ", more is better", "min": ", less is better", None: ": say which end is better"}


def find_objectives(requested: Sequence[str], judged: JudgedBy) -> tuple[Objective, ...]:
    """Return the objectives that judge networks.

    Args:
        requested: Names of metrics on held-out data, with or without ``val_``, or names in `COSTS`.
            A metric without a known direction ends in ``:max`` or ``:min``. If empty, the metric
            that judges the workload.
        judged: Metric that judges the workload, and all its scores.

    Raises:
        FieldError: A name is unknown or repeated, or its direction is unknown.
    """
    objectives = [_find(text, judged) for text in requested or (judged.of("val"),)]
    names = [objective.name for objective in objectives]
    for name in names:
        if names.count(name) > 1:
            raise FieldError(("objective",), f"objective {name} is named twice")
    return tuple(objectives)


def recorded_objectives(
    names: Sequence[str], directions: Sequence[Direction]
) -> tuple[Objective, ...]:
    """Return the objectives of a study's record.

    Args:
        names: Names of objectives from `find_objectives`.
        directions: Direction of each objective; empty in old studies, which knew only accuracy
            and the loss.
    """
    known_directions = directions or ["max" if name == "val_accuracy" else "min" for name in names]
    return tuple(
        Objective(name, COSTS.get(name, name), direction == "max")
        for name, direction in zip(names, known_directions, strict=True)
    )


def _find(text: str, judged: JudgedBy) -> Objective:
    name, colon, end = text.partition(":")
    if colon and end not in ("max", "min"):
        raise FieldError(
            ("objective",), f"objective {name} ends in {end!r}, expected {name}:max or {name}:min"
        )
    if name in COSTS:
        metric, known = COSTS[name], "min"
    else:
        bare = bare_name(name)
        name = metric = f"val_{bare}" if name in (bare, f"val_{bare}") else name
        if bare not in judged.scores or not name.startswith("val_"):
            raise _unknown(text, judged)
        known = judged.direction_of(bare) or end
    if not known:
        raise FieldError(
            ("objective",),
            f"objective {name}: it is not known whether higher or lower is better",
            hint=f"Choose one: --objective {name}:max, or {name}:min",
        )
    if end and end != known:
        raise FieldError(
            ("objective",),
            f"objective {text}: of {name} {'more' if known == 'max' else 'less'} is better",
            hint=f"Leave out :{end}.",
        )
    return Objective(name, metric, known == "max")


def _unknown(text: str, judged: JudgedBy) -> FieldError:
    valid = {
        f"val_{name}": f"{name_words(name)} on held-out data{_BETTER[judged.direction_of(name)]}"
        for name in dict.fromkeys((judged.metric, *judged.scores))
    }
    wrong = unknown_name("objective", text, valid | _SUMMARIES)
    return FieldError(("objective",), wrong.message, hint=wrong.hint)


def values_of(objectives: Sequence[Objective], metrics: Mapping[str, float]) -> list[float]:
    """Return the values of a result's objectives.

    Raises:
        ValueError: A value is missing or not finite.
    """
    values = [metrics.get(objective.metric, math.nan) for objective in objectives]
    for objective, value in zip(objectives, values, strict=True):
        if not math.isfinite(value):
            raise ValueError(f"{objective.name} is {value}: the training diverged")
    return values


def front(points: Sequence[Sequence[float]], maximize: Sequence[bool]) -> list[int]:
    """Return the indices of the Pareto-optimal points, which no other point dominates.

    Equal points are all included.

    Args:
        points: Values of each point, ``[point][objective]``.
        maximize: Whether more is better, by objective.
    """
    signed = [_signed(point, maximize) for point in points]
    return [
        index
        for index, candidate in enumerate(signed)
        if not any(_dominates(other, candidate) for other in signed)
    ]


def best_first(points: Sequence[Sequence[float]], maximize: Sequence[bool]) -> list[int]:
    """Return the indices of points from the best to the worst, equals in their order.

    Several objectives are ranked by non-dominated fronts, and within a front by crowding distance,
    as in NSGA-II (Deb et al., 2002).
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
    """Negate the objectives to maximize, so that less is better in all of them."""
    return tuple(-value if more else value for value, more in zip(point, maximize, strict=True))


def _dominates(values: Sequence[float], other: Sequence[float]) -> bool:
    return values != other and all(a <= b for a, b in zip(values, other, strict=True))


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

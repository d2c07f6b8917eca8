"""Comparison of runs: their differences, and the result of each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.runs.judging import Direction, JudgedBy

if TYPE_CHECKING:
    from tarmac.runs.kind import RunFacts


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Several runs side by side; every sequence is in the order of ``names``.

    Attributes:
        names: Names of the runs, in the order of comparison.
        differences: From a dotted key (``configuration.batch_size``) to each run's value, for the
            keys in which the runs differ; None where a run has no such key.
        metrics: From a final metric to each run's value; None where a run has no such metric.
        judged_by: Metric that each run is judged by; None for a run that is no training.
        curves: Each run's judged metric per epoch: on held-out data, else in training.
    """

    names: Sequence[str]
    differences: Mapping[str, Sequence[object]]
    metrics: Mapping[str, Sequence[float | None]]
    judged_by: Sequence[JudgedBy | None]
    curves: Sequence[Sequence[float]]

    def best(self, metric: str) -> set[int]:
        """Return the positions of the best runs by a final metric.

        The set is empty where all values are alike, or the better direction is unknown.
        """
        values = self.metrics[metric]
        known = [value for value in values if value is not None and math.isfinite(value)]
        direction = self._direction(metric)
        if direction is None or len(known) < 2 or min(known) == max(known):
            return set()
        best = JudgedBy(direction=direction).best(known)
        return {place for place, value in enumerate(values) if value == best}

    def _direction(self, metric: str) -> Direction | None:
        """Return the better direction of a metric; None where runs disagree or do not know it."""
        directions = {judged.direction_of(metric) for judged in self._judges} - {None}
        return directions.pop() if len(directions) == 1 else None

    @property
    def _judges(self) -> Sequence[JudgedBy]:
        return [judged or JudgedBy() for judged in self.judged_by]


def compare(runs: Sequence[tuple[str, RunFacts]]) -> Comparison:
    """Compare runs of any kind.

    Args:
        runs: Name of each run, with its compared facts.
    """
    facts = [run for _, run in runs]
    flat = [dict(_flatten(run.settings)) for run in facts]
    keys = sorted({key for settings in flat for key in settings})
    values = {key: [settings.get(key) for settings in flat] for key in keys}
    metric_names = list(dict.fromkeys(name for run in facts for name in run.metrics))
    return Comparison(
        names=[name for name, _ in runs],
        differences={
            key: row for key, row in values.items() if any(value != row[0] for value in row)
        },
        metrics={name: [run.metrics.get(name) for run in facts] for name in metric_names},
        judged_by=[run.judged_by for run in facts],
        curves=[run.curve for run in facts],
    )


def _flatten(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _flatten(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner

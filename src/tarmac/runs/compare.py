"""What differed between runs, and how each went."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic.main import IncEx

    from tarmac.runs.directory import Run

__all__ = ["Comparison", "compare"]

# What was asked and where it ran; the rest differs between any two runs.
_COMPARED: Mapping[str, IncEx | bool] = {
    "configuration": True,
    "dataset": True,
    "device": True,
    "parallel": {"world_size", "backend"},
    "versions": True,
    "git": True,
}


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Several runs side by side; every sequence is in the order of ``names``.

    Attributes:
        names: Of the runs.
        differences: From a dotted key (``configuration.batch_size``) to each run's value, for the
            keys in which the runs differ; None where a run has no such key.
        metrics: From a final metric to each run's value, None where it has none.
        accuracy: Each run's accuracy per epoch: on held-out data, else in training.
    """

    names: Sequence[str]
    differences: Mapping[str, Sequence[object]]
    metrics: Mapping[str, Sequence[float | None]]
    accuracy: Sequence[Sequence[float]]


def compare(found: Sequence[Run]) -> Comparison:
    """Put runs side by side."""
    flat = [dict(_flatten(run.record.model_dump(mode="json", include=_COMPARED))) for run in found]
    keys = sorted({key for record in flat for key in record})
    values = {key: [record.get(key) for record in flat] for key in keys}
    metric_names = list(dict.fromkeys(name for run in found for name in run.metrics))
    return Comparison(
        names=[run.name for run in found],
        differences={
            key: row for key, row in values.items() if any(value != row[0] for value in row)
        },
        metrics={name: [run.metrics.get(name) for run in found] for name in metric_names},
        accuracy=[
            [row.get("val_accuracy", row["accuracy"]) for row in run.history] for run in found
        ],
    )


def _flatten(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _flatten(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner

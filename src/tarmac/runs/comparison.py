"""What differed between runs, and how each went."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.runs.catalogue import RunFacts

__all__ = ["Comparison", "compare"]


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


def compare(runs: Sequence[tuple[str, RunFacts]]) -> Comparison:
    """Put runs of any kind side by side.

    Args:
        runs: Their names, each with what is compared of it.
    """
    facts = [run for _, run in runs]
    flat = [dict(_flatten(run.asked)) for run in facts]
    keys = sorted({key for asked in flat for key in asked})
    values = {key: [asked.get(key) for asked in flat] for key in keys}
    metric_names = list(dict.fromkeys(name for run in facts for name in run.metrics))
    return Comparison(
        names=[name for name, _ in runs],
        differences={
            key: row for key, row in values.items() if any(value != row[0] for value in row)
        },
        metrics={name: [run.metrics.get(name) for run in facts] for name in metric_names},
        accuracy=[run.accuracy for run in facts],
    )


def _flatten(value: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _flatten(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner

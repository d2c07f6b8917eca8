"""Rows of figures over several runs."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from _harness import Spread

if TYPE_CHECKING:
    from collections.abc import Sequence


def spread(runs: Sequence[dict[str, Any]], name: str, digits: int = 3) -> str:
    """Return a figure's median with its range over runs; empty where none has it."""
    values = [run[name] for run in runs if run.get(name) is not None]
    return Spread.of(values).show(digits) if values else ""


def accuracy(values: Sequence[float]) -> str:
    """Return ``mean ± standard deviation`` in per cent."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.mean(values):.3f} ± {100 * deviation:.3f}"

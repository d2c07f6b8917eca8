"""A training's epochs for pages: with their times, and only with values that are numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.pages.numbers import known

if TYPE_CHECKING:
    from tarmac.runs import Run


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One line of ``metrics.jsonl``.

    Attributes:
        number: Number of the epoch, from 1.
        at_s: End of the epoch, in seconds since the run was created.
        values: Numbers of the epoch by name, only those that can be drawn.
    """

    number: int
    at_s: float
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Epochs:
    """All known epochs of a training.

    Attributes:
        rows: Epochs in the order of ``metrics.jsonl``.
        is_estimated: Whether the times are sums of durations, without the pauses between epochs.
            Older versions did not record the times.
        problem: Why the epochs cannot be read. Empty if they can.
    """

    rows: tuple[Epoch, ...]
    is_estimated: bool = False
    problem: str = ""

    def points(self, name: str) -> list[tuple[float, float | None]]:
        """Return a metric over time."""
        return [(row.at_s, row.values.get(name)) for row in self.rows]

    def has(self, name: str) -> bool:
        """Return whether any epoch has a metric."""
        return any(name in row.values for row in self.rows)


def read_epochs(run: Run) -> Epochs:
    """Read a training's epochs, as far as they can be read."""
    try:
        lines: Sequence[object] = run.history
    except TarmacError as error:
        return Epochs((), problem=error.message)
    rows = [
        {name: number for name, value in line.items() if (number := known(value)) is not None}
        for line in lines
        if isinstance(line, dict)
    ]
    rows = [row for row in rows if "epoch" in row]
    times = [row.get("at_s") for row in rows]
    is_estimated = None in times
    if is_estimated:
        record = run.record
        starts = [_since(record.created_at, session.started_at) for session in record.sessions]
        times = [*_added_up(rows, starts)]
    epochs = (
        Epoch(int(row["epoch"]), at_s or 0.0, row) for row, at_s in zip(rows, times, strict=True)
    )
    return Epochs(tuple(epochs), is_estimated=is_estimated and bool(rows))


def _since(begin: datetime, moment: datetime) -> float:
    return max(0.0, (moment - begin).total_seconds())


def _added_up(rows: Sequence[Mapping[str, float]], starts: Sequence[float]) -> list[float]:
    """Return the epochs' ends, added up from durations and the starts of the last sessions."""
    firsts = [place for place, row in enumerate(rows) if "setup_s" in row]
    began = dict(zip(reversed(firsts), reversed(starts), strict=False))
    times: list[float] = []
    at_s = 0.0
    for place, row in enumerate(rows):
        at_s = max(at_s, began.get(place, 0.0))
        at_s += row.get("setup_s", 0.0) + row.get("seconds", 0.0)
        times.append(at_s)
    return times

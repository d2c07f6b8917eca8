"""A training's epochs as pages need them: placed in time, and without what is no number."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.pages.numbers import known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from tarmac.runs import Run


@dataclasses.dataclass(frozen=True)
class Epoch:
    """One line of ``metrics.jsonl``.

    Attributes:
        number: Number of the epoch, from 1.
        at_s: When it ended, in seconds since the run was created.
        values: Its numbers by name, those alone that can be drawn.
    """

    number: int
    at_s: float
    values: Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Epochs:
    """All epochs that are known.

    Attributes:
        rows: Epochs in the order of ``metrics.jsonl``.
        is_estimated: Whether their times were added up from durations, as in runs of versions that
            did not record them: pauses between epochs are then missing.
        problem: Why some or all of them cannot be read; empty where they can.
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
    """Return when epochs ended by their durations; the last sessions began them."""
    firsts = [place for place, row in enumerate(rows) if "setup_s" in row]
    began = dict(zip(reversed(firsts), reversed(starts), strict=False))
    times: list[float] = []
    at_s = 0.0
    for place, row in enumerate(rows):
        at_s = max(at_s, began.get(place, 0.0))
        at_s += row.get("setup_s", 0.0) + row.get("seconds", 0.0)
        times.append(at_s)
    return times

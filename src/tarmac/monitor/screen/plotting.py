"""Plots of details, side by side where they fit, each with its bounds and its newest value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from tarmac.monitor.drawing import Line, Look, Span
from tarmac.monitor.drawing.lines import cut, width_of
from tarmac.monitor.drawing.plots import plot

_HEIGHT = 5
# Wide enough for -1.23e-05, because a cut number is a wrong number.
_LABEL_WIDTH = 10
# On narrower screens, plots are below one another.
_BESIDE = 76
_GAP = 2


@dataclasses.dataclass(frozen=True)
class Series:
    """A series to plot.

    Attributes:
        title: Title text above the plot.
        values: Values in equal steps; None leaves a gap.
        form: Function that formats a value.
        low: Value at the bottom edge. Default: the lowest value.
        high: Value at the top edge. Default: the highest value.
        fills: Whether the series takes the whole width, as a training's epochs do. Else the newest
            value is on the right, and missing values leave the left side empty.
    """

    title: str
    values: Sequence[float | None]
    form: Callable[[float | None], str]
    low: float | None = None
    high: float | None = None
    fills: bool = False


def plot_lines(series: Sequence[Series], look: Look) -> list[Line]:
    """Return plots of all series that have a value."""
    shown = [
        curve
        for curve in series
        if any(value is not None and math.isfinite(value) for value in curve.values)
    ]
    across = 2 if look.width >= _BESIDE else 1
    width = (look.width - (across - 1) * _GAP) // across
    lines: list[Line] = []
    for group in _batched(shown, across):
        blocks = [_block(curve, width, look) for curve in group]
        for together in zip(*blocks, strict=True):
            spans: list[Span] = []
            for line in together:
                spans += [*line, Span(" " * (width - width_of(line) + _GAP))]
            lines.append(tuple(spans))
    return lines


def _batched(series: Sequence[Series], number: int) -> list[Sequence[Series]]:
    return [series[begin : begin + number] for begin in range(0, len(series), number)]


def _block(series: Series, width: int, look: Look) -> list[Line]:
    # Losses of a diverged training are not finite and have no place between bounds.
    known = [value for value in series.values if value is not None and math.isfinite(value)]
    low = min(known) if series.low is None else series.low
    high = max(known) if series.high is None else series.high
    newest = series.form(series.values[-1])
    title = cut(f"{series.title}  now {newest}", width, ascii_only=look.ascii_only)
    room = max(4, width - _LABEL_WIDTH)
    drawn = plot(
        _spread(series.values, 2 * room) if series.fills else series.values,
        room,
        _HEIGHT,
        low=low,
        high=high,
        ascii_only=look.ascii_only,
    )
    labels = [series.form(high), *([""] * (_HEIGHT - 2)), series.form(low)]
    edge = "|" if look.ascii_only else "│"
    lines: list[Line] = [(Span(title, "title"),)]
    for label, line in zip(labels, drawn, strict=True):
        lines.append(
            (
                Span(f"{label:>{_LABEL_WIDTH - 1}.{_LABEL_WIDTH - 1}}{edge}", "dim"),
                Span(line, "busy"),
            )
        )
    return lines


def _spread(values: Sequence[float | None], number: int) -> Sequence[float | None]:
    """Return a series of at least ``number`` values; a shorter series repeats its values."""
    if len(values) >= number:
        return values
    return [values[place * len(values) // number] for place in range(number)]

"""Bars, sparklines and plots in characters: blocks and braille, or ASCII alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.-=+*#@"
# Dots of a braille character by column and row, from the top: Unicode's table of braille patterns.
_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def bar(ratio: float | None, width: int, *, ascii_only: bool = False) -> str:
    """Return a bar of ``width`` cells, filled to ``ratio`` of 1; dots if the ratio is unknown."""
    if ratio is None or not math.isfinite(ratio):
        return ("." if ascii_only else "·") * width
    filled = min(max(ratio, 0.0), 1.0) * width
    if ascii_only:
        return ("#" * round(filled)).ljust(width, ".")
    full = int(filled)
    rest = _EIGHTHS[int((filled - full) * 8)] if full < width else ""
    return ("█" * full + rest.strip()).ljust(width)


def resampled(values: Sequence[float | None], number: int) -> list[float | None]:
    """Return the means of ``number`` equal parts of a series; a shorter series is unchanged."""
    if len(values) <= number:
        return [*values]
    edges = [len(values) * part // number for part in range(number + 1)]
    return [_mean(values[begin:end]) for begin, end in itertools.pairwise(edges)]


def sparkline(
    values: Sequence[float | None],
    width: int,
    *,
    low: float = 0.0,
    high: float = 1.0,
    ascii_only: bool = False,
) -> str:
    """Return the newest values in ``width`` cells, the newest on the right; blank if unknown."""
    levels = _ASCII_LEVELS if ascii_only else _LEVELS
    span = high - low or 1.0
    drawn = "".join(
        " "
        if value is None or not math.isfinite(value)
        else levels[min(max(int((value - low) / span * len(levels)), 0), len(levels) - 1)]
        for value in values[-width:]
    )
    return drawn.rjust(width)


def plot(
    values: Sequence[float | None],
    width: int,
    height: int,
    *,
    low: float,
    high: float,
    ascii_only: bool = False,
) -> list[str]:
    """Return a plot of a series, as lines from top to bottom.

    Args:
        values: Values in equal steps of time. None leaves a gap.
        width: Width of the plot in terminal cells.
        height: Height of the plot in terminal cells.
        low: Value at the bottom edge. Smaller values are drawn there.
        high: Value at the top edge. Larger values are drawn there.
        ascii_only: Draw one dot per cell with ``*``, rather than eight in braille.
    """
    across, down = (1, 1) if ascii_only else (2, 4)
    columns, rows = width * across, height * down
    shown = resampled(values, columns)
    offset = columns - len(shown)
    span = high - low
    cells = [[0] * width for _ in range(height)]
    before: int | None = None
    for number, value in enumerate(shown):
        if value is None or not math.isfinite(value):
            before = None
            continue
        share = min(max((value - low) / span, 0.0), 1.0) if span > 0 else 0.5
        row = round((1 - share) * (rows - 1))
        x = number + offset
        # Connect the height of the last value to this height, so that a jump is a line.
        first, last = sorted((row, row if before is None else before))
        for y in range(first, last + 1):
            cells[y // down][x // across] |= _DOTS[x % across][y % down]
        before = row
    if ascii_only:
        return ["".join("*" if dots else " " for dots in line) for line in cells]
    # Blank cells are braille too, because only those are as wide as the others in every font.
    return ["".join(chr(_BLANK + dots) for dots in line) for line in cells]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None

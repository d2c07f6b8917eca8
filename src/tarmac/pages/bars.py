"""Bars: stacked along an axis, or below each other with their names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from markupsafe import Markup

from tarmac.pages.figure import (
    STRETCH,
    DataTable,
    Key,
    alt,
    area,
    axes,
    figure,
    percent,
)
from tarmac.pages.numbers import known, worded
from tarmac.pages.scales import Axis, Tick, scale_of

# More bars cannot be told apart, so neighbours are joined.
_MAX_BARS = 120
_MAX_NAMES = 6


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar.

    Attributes:
        name: Name of the bar, shown beside or below it.
        values: Values of the parts, from the bottom up. None where unknown.
        text: Text after the bar, for `bars` only. Default: the bar's value.
        state: Style for `bars` only: ``plain``, or ``ok``, ``warn``, ``bad`` to stand out.
    """

    name: str
    values: Sequence[float | None]
    text: str = ""
    state: str = "plain"


def stacked_bars(
    key: str,
    title: str,
    rows: Sequence[Bar],
    *,
    parts: Sequence[str],
    x: Axis,
    y: Axis,
    height: int = 200,
) -> Markup:
    """Draw vertical bars of several parts; many bars are joined to means of neighbours.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        rows: Bars to draw, from left to right.
        parts: Names of the parts, from the bottom up.
        x: Axis of the bars. Only its label is used.
        y: Axis of the bars' height. It starts at 0 by default.
        height: Height of the drawing area in CSS pixels. Default 200.
    """
    shown = _joined(rows, len(parts))
    up = scale_of(
        dataclasses.replace(y, low=0.0 if y.low is None else y.low),
        [sum(filter(None, map(known, bar.values))) for bar in shown],
    )
    paths: list[list[str]] = [[] for _ in parts]
    for number, bar in enumerate(shown):
        left = round((number + 0.06) / len(shown) * STRETCH)
        width = max(1, round(0.88 / len(shown) * STRETCH))
        bottom = 0.0
        for part, value in enumerate(bar.values[: len(parts)]):
            size = known(value) or 0.0
            low, high = up.place(bottom), up.place(bottom + size)
            bottom += size
            if low is not None and high is not None and high > low:
                top = round((1 - min(high, 1.0)) * STRETCH)
                tall = round((high - low) * STRETCH)
                paths[part].append(f"M{left} {top}h{width}v{tall}h-{width}z")
    drawn = Markup("").join(
        Markup('<path class="fill s{}" d="{}"/>').format(part, "".join(words))
        for part, words in enumerate(paths)
    )
    every = max(1, -(-len(shown) // _MAX_NAMES))
    ticks = [
        Tick((number + 0.5) / len(shown), bar.name)
        for number, bar in enumerate(shown)
        if number % every == 0
    ]
    content = (
        alt(key, title, " ".join(_totals(rows, parts, y)))
        + axes(ticks, up.ticks(4), x.label)
        + Markup('<svg class="stretch" viewBox="0 0 {0} {0}" {1}>{2}</svg>').format(
            STRETCH, Markup('preserveAspectRatio="none" width="100%" height="100%"'), drawn
        )
    )
    table = DataTable(
        [x.label or "what", *parts],
        [[bar.name, *(worded(value, y.unit) for value in bar.values)] for bar in rows],
    )
    return figure(
        key,
        title,
        area(key, content, height=height),
        legend=[Key(part, f"block s{number}") for number, part in enumerate(parts)],
        data=[table],
        classes="labelled" if x.label else "",
    )


def bars(key: str, title: str, rows: Sequence[Bar], *, unit: str = "", label: str = "") -> Markup:
    """Draw horizontal bars below each other, as a table whose second column is drawn.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        rows: Bars to draw, from top to bottom. Only the first value of each bar is drawn, from 0.
        unit: Unit of the values, in the form that `tarmac.pages.numbers.worded` takes.
        label: Heading of the names in the table. Default: ``name``.
    """
    scale = scale_of(Axis(low=0.0), [row.values[0] for row in rows if row.values])
    drawn = Markup("")
    for row in rows:
        value = row.values[0] if row.values else None
        drawn += Markup(
            '<tr><th scope="row">{}</th><td class="drawn"><svg aria-hidden="true" width="100%" '
            'height="14"><rect class="s0 {}" width="{}" height="14"/></svg></td>'
            '<td class="number">{}</td></tr>'
        ).format(
            row.name,
            row.state,
            percent(min(max(scale.place(value) or 0.0, 0.0), 1.0)),
            row.text or worded(value, unit),
        )
    table = Markup(
        '<table class="bar-list"><thead class="unseen"><tr><th scope="col">{}</th>'
        '<td></td><th scope="col">{}</th></tr></thead><tbody>{}</tbody></table>'
    ).format(label or "name", title or "value", drawn)
    return figure(key, title, table)


def _joined(rows: Sequence[Bar], count: int) -> Sequence[Bar]:
    if len(rows) <= _MAX_BARS:
        return rows
    size = -(-len(rows) // _MAX_BARS)
    joined: list[Bar] = []
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        name = part[0].name if len(part) == 1 else f"{part[0].name}-{part[-1].name}"
        columns = [
            [known(bar.values[n]) for bar in part if n < len(bar.values)] for n in range(count)
        ]
        joined.append(Bar(name, [_mean(column) for column in columns]))
    return joined


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _totals(rows: Sequence[Bar], parts: Sequence[str], y: Axis) -> list[str]:
    words = [f"{len(rows):,} bars."]
    for number, part in enumerate(parts):
        values = [known(bar.values[number]) for bar in rows if number < len(bar.values)]
        mean = _mean(values)
        if mean is not None:
            words.append(f"{part}: {worded(mean, y.unit)} on average.")
    return words

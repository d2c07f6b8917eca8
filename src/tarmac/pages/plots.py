"""Plots of values: lines, points, histograms, sparklines, as SVG that needs no script.

All are pure functions from values to `markupsafe.Markup`. A figure has a ``key``, its unique ID in
the page, an alt text, and its data as a table. The variables of style.css give the colours, light
and dark. See also `tarmac.pages.lanes`, `tarmac.pages.bars`, `tarmac.pages.matrix`.

Example:
    >>> loss = Series("loss", [(1, 0.9), (2, 0.5), (3, 0.4)])
    >>> svg = line_plot("loss", "Loss", [loss], x=Axis("epoch", is_whole=True), y=Axis("loss"))
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from markupsafe import Markup

from tarmac.pages.figure import (
    COLOURS,
    STRETCH,
    DataTable,
    Key,
    alt,
    area,
    axes,
    figure,
    percent,
    scale_data,
)
from tarmac.pages.numbers import known, worded
from tarmac.pages.scales import Axis, Scale, scale_of

# More points than the columns of a wide screen add no detail.
_MAX_POINTS = 1500
# Up to this number, each point of a line is also a dot.
_MAX_DOTS = 30
# With more points, texts for each point of a scatter make the page too large.
_MAX_TEXTS = 1500
_MAX_BINS = 40
# Free space at the ends of an axis, as a share of it.
_ROOM = 0.04


@dataclasses.dataclass(frozen=True)
class Series:
    """Values along an axis.

    Attributes:
        name: Name of the series in the legend.
        points: Positions and values, in the order of the axis. A value of None breaks the line.
        style: ``line``, ``dashed``, ``step`` (keeps a value until the next one) or ``dots``.
        colour: Number of the colour in style.css, from 0. Default: the position among the plot's
            series.
    """

    name: str
    points: Sequence[tuple[float, float | None]]
    style: str = "line"
    colour: int | None = None


@dataclasses.dataclass(frozen=True)
class Mark:
    """An event on the x axis.

    Attributes:
        at: Position on the x axis, in its unit.
        text: Description of the event, shown at the pointer.
        state: Style of the mark: ``plain``, ``ok``, ``warn`` or ``bad``.
    """

    at: float
    text: str
    state: str = "plain"


@dataclasses.dataclass(frozen=True)
class Point:
    """A point of a scatter.

    Attributes:
        x: Value along the x axis.
        y: Value along the y axis.
        text: Text to show at the pointer.
        weight: A third value, shown as the strength of the point's colour. None for none.
        state: Style of the point: ``plain``, or ``ok``, ``warn``, ``bad`` to stand out.
    """

    x: float
    y: float
    text: str = ""
    weight: float | None = None
    state: str = "plain"


def line_plot(
    key: str,
    title: str,
    series: Sequence[Series],
    *,
    x: Axis,
    y: Axis,
    marks: Sequence[Mark] = (),
    height: int = 240,
    group: str = "",
) -> Markup:
    """Draw lines over one axis.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        series: Lines to draw, each in a colour of its own.
        x: Axis from left to right, shared by all lines.
        y: Axis from bottom to top, shared by all lines.
        marks: Events along the x axis. Default: none.
        height: Height of the drawing area in CSS pixels. Default 240.
        group: Name of a group of plots and lanes with the same x axis, which share one pointer.
    """
    along = scale_of(x, (at for line in series for at, _ in line.points))
    up = scale_of(y, (value for line in series for _, value in line.points), room=_ROOM)
    lines = Markup("").join(
        line_path(line, along, up, colour(place, line.colour)) for place, line in enumerate(series)
    )
    content = (
        alt(key, title, " ".join(_described(line, y) for line in series[:COLOURS]))
        + axes(along.ticks(), up.ticks(5), x.label)
        + mark_lines(marks, along)
        + Markup('<svg class="stretch" viewBox="0 0 {0} {0}" {1}>{2}</svg>').format(
            STRETCH, Markup('preserveAspectRatio="none" width="100%" height="100%"'), lines
        )
    )
    attributes = scale_data(along, "x") + scale_data(up, "y")
    if group:
        attributes += Markup('data-group="{}"').format(group)
    return figure(
        key,
        title,
        area(key, content, height=height, attributes=attributes),
        legend=[
            Key(line.name, f"{colour(place, line.colour)} {line.style}")
            for place, line in enumerate(series)
        ]
        if len(series) > 1
        else (),
        data=[_series_table(series, x, y)],
        classes="labelled" if x.label else "",
    )


def scatter(
    key: str,
    title: str,
    points: Sequence[Point],
    *,
    x: Axis,
    y: Axis,
    lines: Sequence[Series] = (),
    weight: Axis | None = None,
    height: int = 300,
) -> Markup:
    """Draw points, and lines over them, such as a front.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        points: Points to draw, in any order.
        x: Axis from left to right, for points and lines.
        y: Axis from bottom to top, for points and lines.
        lines: Lines to draw over the points. Default: none.
        weight: Axis of the points' weights, for the legend. Default: no weights.
        height: Height of the drawing area in CSS pixels. Default 300.
    """
    across = [*(point.x for point in points), *(at for line in lines for at, _ in line.points)]
    upward = [
        *(point.y for point in points),
        *(value for line in lines for _, value in line.points),
    ]
    along, up = scale_of(x, across, room=_ROOM), scale_of(y, upward, room=_ROOM)
    weights = [point.weight for point in points if known(point.weight) is not None]
    strong = scale_of(weight or Axis(), weights) if weights else None
    has_texts = len(points) <= _MAX_TEXTS
    dots = Markup("").join(_dot(point, along, up, strong, has_texts=has_texts) for point in points)
    over = Markup("").join(
        line_path(line, along, up, colour(place + 1, line.colour))
        for place, line in enumerate(lines)
    )
    content = (
        alt(key, title, f"{len(points):,} points. " + " ".join(_described(s, y) for s in lines))
        + axes(along.ticks(), up.ticks(5), x.label)
        + Markup('<g class="dots">{}</g>').format(dots)
        + Markup('<svg class="stretch" viewBox="0 0 {0} {0}" {1}>{2}</svg>').format(
            STRETCH, Markup('preserveAspectRatio="none" width="100%" height="100%"'), over
        )
    )
    legend = [
        Key(line.name, f"{colour(place + 1, line.colour)} {line.style}")
        for place, line in enumerate(lines)
    ]
    if strong is not None and weight is not None:
        ends = f"{weight.label}: {worded(strong.low, weight.unit)} (pale)"
        legend.append(Key(f"{ends} to {worded(strong.high, weight.unit)} (strong)", "ramp"))
    columns = [x.label or "x", y.label or "y", *([weight.label] if weight else []), "what"]
    rows = [
        [
            worded(point.x, x.unit),
            worded(point.y, y.unit),
            *([worded(point.weight, weight.unit)] if weight else []),
            point.text,
        ]
        for point in points
    ]
    return figure(
        key,
        title,
        area(key, content, height=height),
        legend=legend,
        data=[DataTable(columns, rows)],
        classes="labelled" if x.label else "",
    )


def histogram(
    key: str, title: str, values: Sequence[float], *, x: Axis, height: int = 180
) -> Markup:
    """Draw the numbers of values in equal ranges.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        values: Values to count. NaN, infinity and other values that cannot be drawn are ignored.
        x: Axis of the values, with their name and unit.
        height: Height of the drawing area in CSS pixels. Default 180.
    """
    numbers = [number for number in map(known, values) if number is not None]
    along = scale_of(x, numbers)
    places = [place for place in map(along.place, numbers) if place is not None and 0 <= place <= 1]
    bins = min(_MAX_BINS, max(1, math.ceil(math.sqrt(len(places)))))
    counts = [0] * bins
    for place in places:
        counts[min(bins - 1, int(place * bins))] += 1
    up = scale_of(Axis("count", low=0.0, is_whole=True), counts)
    bars = Markup("").join(
        Markup('<rect class="s0" x="{}" width="{}" y="{}" height="{}"/>').format(
            percent(number / bins),
            percent(0.94 / bins),
            percent(1 - (up.place(count) or 0.0)),
            percent(up.place(count) or 0.0),
        )
        for number, count in enumerate(counts)
        if count
    )
    width = (along.high - along.low) / bins
    edges = [along.low + width * number for number in range(bins + 1)]
    if x.is_log:
        ratio = (along.high / along.low) ** (1 / bins)
        edges = [along.low * ratio**number for number in range(bins + 1)]
    rows = [
        [f"{worded(edges[number], x.unit)} to {worded(edges[number + 1], x.unit)}", f"{count:,}"]
        for number, count in enumerate(counts)
    ]
    content = (
        alt(key, title, f"{len(places):,} values in {bins} ranges, most {max(counts):,} in one.")
        + axes(along.ticks(), up.ticks(4), x.label)
        + Markup('<g class="bars">{}</g>').format(bars)
    )
    return figure(
        key,
        title,
        area(key, content, height=height),
        data=[DataTable([x.label or "from to", "count"], rows)],
        classes="labelled" if x.label else "",
    )


def sparkline(values: Sequence[float | None], *, text: str) -> Markup:
    """Draw a line of the size of a word.

    Args:
        values: Values at equal steps. None breaks the line.
        text: Alt text of the picture, for screen readers.
    """
    series = Series("", thinned([*enumerate(values)], 60))
    along = scale_of(Axis(), range(len(values)))
    up = scale_of(Axis(), values)
    return Markup(
        '<svg class="spark" role="img" aria-label="{}" viewBox="0 0 {} {}" '
        'preserveAspectRatio="none">{}</svg>'
    ).format(text, STRETCH, STRETCH, line_path(series, along, up, "s0"))


def thinned(
    points: Sequence[tuple[float, float | None]], most: int = _MAX_POINTS
) -> list[tuple[float, float | None]]:
    """Return about ``most`` points that look the same: the extremes of each range stay."""
    if len(points) <= most:
        return [*points]
    size = math.ceil(len(points) * 4 / most)
    kept: list[tuple[float, float | None]] = []
    for first in range(0, len(points), size):
        part = range(first, min(first + size, len(points)))
        real = [place for place in part if known(points[place][1]) is not None]
        wanted = {part[0], part[-1]}
        if real:
            wanted |= {min(real, key=lambda p: points[p][1]), max(real, key=lambda p: points[p][1])}  # type: ignore[arg-type,return-value]
        kept += [points[place] for place in sorted(wanted)]
    return kept


def colour(place: int, chosen: int | None = None) -> str:
    """Return the colour classes of a series. Series beyond the last colour are dashed."""
    number = place if chosen is None else chosen
    return f"s{number % COLOURS}" + (" far" if number >= COLOURS else "")


def line_path(series: Series, along: Scale, up: Scale, classes: str) -> Markup:
    """Draw one series in the nested SVG."""
    points = thinned(series.points)
    words: list[str] = []
    dots: list[str] = []
    is_open = False
    for at, value in points:
        x, y = along.place(at), up.place(value)
        if x is None or y is None:
            is_open = False
            continue
        left, top = _fitted(x), _fitted(1 - y)
        if is_open:
            words.append(f"H{left}V{top}" if series.style == "step" else f"L{left} {top}")
        else:
            words.append(f"M{left} {top}h0")
        dots.append(f"M{left} {top}h0")
        is_open = True
    drawn = Markup('<path class="line {} {}" data-name="{}" d="{}"/>').format(
        classes, series.style, series.name, "".join(words)
    )
    # A straight line of two points, such as an expectation, needs no dots.
    if series.style == "dots" or 2 < len(points) <= _MAX_DOTS or len(points) == 1:
        drawn += Markup('<path class="dot {}" d="{}"/>').format(classes, "".join(dots))
    return drawn


def mark_lines(marks: Sequence[Mark], along: Scale) -> Markup:
    """Draw events as vertical lines."""
    drawn = Markup("")
    for mark in marks:
        place = along.place(mark.at)
        if place is not None and 0 <= place <= 1:
            drawn += Markup(
                '<line class="mark {0}" x1="{1}" x2="{1}" y2="100%" data-text="{2}">'
                "<title>{2}</title></line>"
            ).format(mark.state, percent(place), mark.text)
    return drawn


def _dot(point: Point, along: Scale, up: Scale, strong: Scale | None, *, has_texts: bool) -> Markup:
    x, y = along.place(point.x), up.place(point.y)
    if x is None or y is None:
        return Markup("")
    weight = None if strong is None else strong.place(point.weight)
    return Markup('<circle class="{}"{} cx="{}" cy="{}" r="4">{}</circle>').format(
        point.state,
        "" if weight is None else Markup(' style="--w:{}"').format(percent(weight)),
        percent(x),
        percent(1 - y),
        Markup("<title>{}</title>").format(point.text) if has_texts and point.text else "",
    )


def _fitted(place: float) -> int:
    """Return a coordinate in the nested SVG; a place outside the axis stays near its end."""
    return round(min(max(place, -0.05), 1.05) * STRETCH)


def _described(series: Series, axis: Axis) -> str:
    values = [value for _, value in series.points if known(value) is not None]
    if not values:
        return f"{series.name}: nothing is known."
    numbers = [value for value in values if value is not None]
    first, last, low, high = (
        worded(value, axis.unit) for value in (numbers[0], numbers[-1], min(numbers), max(numbers))
    )
    return f"{series.name}: from {first} to {last}, lowest {low}, highest {high}."


def _series_table(series: Sequence[Series], x: Axis, y: Axis) -> DataTable:
    values: dict[float, list[float | None]] = {}
    for place, line in enumerate(series):
        for at, value in line.points:
            values.setdefault(at, [None] * len(series))[place] = value
    return DataTable.of(
        [x.label or "at", *(line.name for line in series)],
        sorted(values.items(), key=lambda item: item[0]),
        lambda item: [worded(item[0], x.unit), *(worded(value, y.unit) for value in item[1])],
    )

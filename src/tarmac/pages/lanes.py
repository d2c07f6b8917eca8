"""Lanes: a thin strip for each GPU or task, all with the same axis of time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from markupsafe import Markup

from tarmac.pages.figure import STRETCH, DataTable, Key, axes, figure, percent, scale_data
from tarmac.pages.numbers import known, worded
from tarmac.pages.plots import Mark, mark_lines, thinned
from tarmac.pages.scales import Axis, Scale, scale_of


@dataclasses.dataclass(frozen=True)
class Span:
    """A stretch of time in a lane.

    Attributes:
        start: Start of the stretch, in the unit of the x axis.
        end: End of the stretch, in the unit of the x axis.
        text: Description of the stretch, for its tooltip and its row in the table.
        state: Style of the block: ``ok``, ``bad``, ``warn``, ``busy``, ``wait`` or ``plain``.
        label: Word to write into the block if it is wide enough. Empty for none.
    """

    start: float
    end: float
    text: str
    state: str = "plain"
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Lane:
    """A strip with values as a filled curve, spans as blocks, or both.

    Attributes:
        name: Name of the strip, shown beside or above it.
        values: Positions and values of the curve. An unknown value is None.
        spans: Blocks to draw in the strip.
        unit: Unit of the values, in the form that `tarmac.pages.numbers.worded` takes.
        low: Value at the strip's bottom edge. Default 0.
        high: Value at the strip's top edge. Default: the largest value.
        colour: Number of the curve's colour in style.css, 0 to 7. Default 0.
        note: Text after the name. Empty for none.
    """

    name: str
    values: Sequence[tuple[float, float | None]] = ()
    spans: Sequence[Span] = ()
    unit: str = ""
    low: float = 0.0
    high: float | None = None
    colour: int = 0
    note: str = ""


def lanes(
    key: str,
    title: str,
    rows: Sequence[Lane],
    *,
    x: Axis,
    marks: Sequence[Mark] = (),
    beside: bool = False,
    height: int = 40,
    legend: Sequence[tuple[str, str]] = (),
    group: str = "",
) -> Markup:
    """Draw strips below each other with a shared axis.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        rows: Strips to draw, from top to bottom.
        x: Axis of all strips, from left to right.
        marks: Events along the axis, shown in every strip. Default: none.
        beside: Whether names are beside the strips, as for tasks. Default False: above them, so
            that the strips line up with a `line_plot` of the same axis.
        height: Height of each strip in CSS pixels. Default 40.
        legend: Pairs of a name and a state of spans. Default: none.
        group: Name of the group that shares a pointer, the same as in `line_plot`.
    """
    places = [at for row in rows for at, _ in row.values]
    places += [at for row in rows for span in row.spans for at in (span.start, span.end)]
    along = scale_of(x, places)
    drawn = Markup("").join(
        _lane(f"{key}-{number}", row, along, marks=marks, height=height, group=group)
        for number, row in enumerate(rows)
    )
    foot = Markup(
        '<div class="lane foot" aria-hidden="true"><span></span><div class="strip">'
        '<svg width="100%" height="1">{}</svg></div></div>'
    ).format(axes(along.ticks(), (), x.label))
    return figure(
        key,
        title,
        Markup('<div class="lanes {}">{}{}</div>').format(
            "beside" if beside else "above", drawn, foot
        ),
        legend=[Key(name, f"block {state}") for name, state in legend],
        data=_tables(rows, x),
        classes="labelled" if x.label else "",
    )


def _lane(
    key: str, lane: Lane, along: Scale, *, marks: Sequence[Mark], height: int, group: str
) -> Markup:
    up = scale_of(Axis(unit=lane.unit, low=lane.low, high=lane.high), [v for _, v in lane.values])
    blocks = Markup("").join(_block(span, along) for span in lane.spans)
    curve = Markup("")
    if lane.values:
        curve = Markup(
            '<svg class="stretch" viewBox="0 0 {0} {0}" preserveAspectRatio="none" width="100%" '
            'height="100%">{1}</svg>'
        ).format(STRETCH, _curve(lane, along, up))
    scales = scale_data(along, "x") + (scale_data(up, "y") if lane.values else "")
    if group:
        scales += Markup('data-group="{}"').format(group)
    name = Markup('<span class="lane-name" title="{0}">{0}{1}</span>').format(
        lane.name, Markup(" <small>{}</small>").format(lane.note) if lane.note else ""
    )
    top = Markup('<text class="y" x="0" dx="-8" y="0" dy=".7em" aria-hidden="true">{}</text>')
    return Markup(
        '<div class="lane">{}<div class="strip" {}><svg role="img" aria-labelledby="{}-title" '
        'width="100%" height="{}"><title id="{}-title">{}</title>{}{}{}{}</svg></div></div>'
    ).format(
        name,
        scales,
        key,
        height,
        key,
        _described(lane),
        top.format(worded(up.high, lane.unit)) if lane.values else "",
        mark_lines(marks, along),
        curve,
        blocks,
    )


def _block(span: Span, along: Scale) -> Markup:
    start, end = along.place(span.start), along.place(span.end)
    if start is None or end is None or end < 0 or start > 1:
        return Markup("")
    start, end = max(start, 0.0), min(max(end, start), 1.0)
    label = Markup("")
    # About the width of a word in a wide page. A narrower block has only its tooltip.
    if span.label and end - start > 0.012 * len(span.label) + 0.01:
        label = Markup('<text class="in" x="{}" dx="4" y="50%" dy=".32em">{}</text>').format(
            percent(start), span.label
        )
    return Markup(
        '<g class="block {}"><title>{}</title><rect x="{}" width="{}" height="100%"/>{}</g>'
    ).format(span.state, span.text, percent(start), percent(max(end - start, 0.001)), label)


def _curve(lane: Lane, along: Scale, up: Scale) -> Markup:
    """Fill the strip below the values, with gaps at unknown values."""
    words: list[str] = []
    part: list[tuple[int, int]] = []

    def close() -> None:
        if part:
            line = "".join(f"L{left} {top}" for left, top in part)
            words.append(f"M{part[0][0]} {STRETCH}{line}L{part[-1][0] + 1} {STRETCH}Z")
            part.clear()

    for at, value in thinned(lane.values):
        x, y = along.place(at), up.place(value)
        if x is None or y is None:
            close()
        elif -0.05 <= x <= 1.05:
            part.append((round(x * STRETCH), round((1 - min(max(y, 0.0), 1.0)) * STRETCH)))
    close()
    return Markup('<path class="fill s{}" data-name="{}" d="{}"/>').format(
        lane.colour, lane.name, "".join(words)
    )


def _described(lane: Lane) -> str:
    numbers = [value for _, value in lane.values if value is not None and known(value) is not None]
    words = [f"{span.text}." for span in lane.spans[:20]]
    if numbers:
        mean, high = sum(numbers) / len(numbers), max(numbers)
        words.insert(0, f"mean {worded(mean, lane.unit)}, highest {worded(high, lane.unit)}.")
    return " ".join([f"{lane.name}:", *(words or ["nothing is known."])])


def _tables(rows: Sequence[Lane], x: Axis) -> list[DataTable]:
    """Return a table of all lanes' values, and a table of all lanes' spans."""
    valued = [row for row in rows if row.values]
    spans = [
        [row.name, worded(span.start, x.unit), worded(span.end, x.unit), span.text]
        for row in rows
        for span in row.spans
    ]
    tables = [_values_table(valued, x)] if valued or not spans else []
    return [*tables, DataTable(["name", "from", "to", "what"], spans)] if spans else tables


def _values_table(rows: Sequence[Lane], x: Axis) -> DataTable:
    values: dict[float, list[float | None]] = {}
    for place, row in enumerate(rows):
        for at, value in row.values:
            values.setdefault(at, [None] * len(rows))[place] = value
    return DataTable.of(
        [x.label or "at", *(row.name for row in rows)],
        sorted(values.items(), key=lambda item: item[0]),
        lambda item: [
            worded(item[0], x.unit),
            *(worded(value, row.unit) for value, row in zip(item[1], rows, strict=True)),
        ],
    )

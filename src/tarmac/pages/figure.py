"""What all plots have in common: a caption, a legend, the picture's alt text, and its data.

Plots are SVG that is as wide as the page: places along an axis are percentages, lines are drawn in
a nested picture that is stretched, and so texts and strokes keep their size on a telephone.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tarmac.pages.scales import Scale, Tick

# Classes s0, s1, ... of style.css; more series than that take turns with dashes.
COLOURS = 8

_Item = TypeVar("_Item")

# The side of the nested picture: whole numbers in it are finer than any screen.
STRETCH = 10000

# Texts along the x axis that a telephone has room for.
_MAX_TICKS_NARROW = 4

# Rows of the table under a plot: enough to follow the picture, read aloud or on paper.
_MAX_ROWS = 40


def plot_id(name: str) -> str:
    """Return a metric's name as a part of a figure's id: ``val-accuracy`` for ``val_accuracy``."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


@dataclasses.dataclass(frozen=True)
class Key:
    """A legend's entry: a name, and the classes of style.css that it is drawn with."""

    name: str
    classes: str


@dataclasses.dataclass(frozen=True)
class DataTable:
    """A plot's data as a table: what screen readers read, and all others can open.

    Attributes:
        columns: Column headings, from left to right.
        rows: What it shows, or picks from where they are many.
        total: How many there are, where these are picked already.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: int = 0

    @classmethod
    def of(
        cls, columns: Sequence[str], items: Sequence[_Item], row: Callable[[_Item], Sequence[str]]
    ) -> DataTable:
        """Make a table of at most so many rows as are read: evenly spaced, with the ends.

        Args:
            columns: Column headings, from left to right.
            items: What there is a row of each.
            row: Writes an item's row; called for those that are shown alone.
        """
        shown = [row(items[place]) for place in picked(len(items))]
        return cls(columns, shown, len(items))


def figure(
    key: str,
    title: str,
    body: Markup,
    *,
    legend: Sequence[Key] = (),
    data: Sequence[DataTable] = (),
    classes: str = "",
) -> Markup:
    """Put a plot's parts together.

    Args:
        key: Its id, unique in the page: letters, digits and hyphens.
        title: Its caption; empty where a heading says it.
        body: Markup of the picture, such as `area` returns.
        legend: What the colours stand for.
        data: What it was drawn from.
        classes: Further classes of style.css.
    """
    entries = Markup("").join(
        Markup(
            '<li><svg class="key {}" aria-hidden="true"><path d="M2 6h18"/></svg>{}</li>'
        ).format(entry.classes, entry.name)
        for entry in legend
    )
    return Markup('<figure class="plot {}" id="{}">{}{}{}{}</figure>').format(
        classes,
        key,
        Markup("<figcaption>{}</figcaption>").format(title) if title else "",
        Markup('<ul class="legend">{}</ul>').format(entries) if entries else "",
        body,
        Markup("").join(
            _table(f"{key}-data{number or ''}", title, table) for number, table in enumerate(data)
        ),
    )


def alt(key: str, title: str, description: str) -> Markup:
    """Return a picture's title and description, which `area` names it by."""
    return Markup('<title id="{0}-title">{1}</title><desc id="{0}-desc">{2}</desc>').format(
        key, title, description
    )


def area(key: str, content: Markup, *, height: int, attributes: Markup | None = None) -> Markup:
    """Return a plot's drawing area with room for the texts of its axes.

    Args:
        key: ID of the plot's figure. The ids of its alt texts begin with it.
        content: `alt`, and what is drawn.
        height: In CSS pixels, without the axes' texts.
        attributes: Attributes of the area, from `scale_data`. Default: none.
    """
    return Markup(
        '<div class="area" {}><svg role="img" aria-labelledby="{}-title {}-desc" width="100%" '
        'height="{}">{}</svg></div>'
    ).format(attributes or "", key, key, height, content)


def scale_data(scale: Scale, letter: str) -> Markup:
    """Return a scale as attributes, from which the page's script tells values at the pointer.

    Args:
        scale: Scale of the axis to export.
        letter: Name of the axis, ``x`` or ``y``.
    """
    return Markup('data-{0}="{1!r} {2!r} {3}" data-{0}-unit="{4}" data-{0}-label="{5}" ').format(
        letter,
        scale.low,
        scale.high,
        "log" if scale.axis.is_log else "linear",
        scale.axis.unit,
        scale.axis.label,
    )


def axes(x: Sequence[Tick], y: Sequence[Tick], x_label: str = "") -> Markup:
    """Return the lines and texts of a plot's axes."""
    parts = [Markup('<g class="axes" aria-hidden="true">')]
    for tick in y:
        place = percent(1 - tick.place)
        parts.append(
            Markup('<line class="grid" x2="100%" y1="{0}" y2="{0}"/>').format(place)
            + Markup('<text class="y" x="0" dx="-8" y="{}" dy=".32em">{}</text>').format(
                place, tick.text
            )
        )
    for number, tick in enumerate(x):
        side = "start" if tick.place < 0.03 else "end" if tick.place > 0.97 else "mid"
        parts.append(
            Markup('<text class="x {} {}" x="{}" y="100%" dy="1.5em">{}</text>').format(
                side,
                # Left out where a telephone has too little room.
                "odd" if number % 2 and len(x) > _MAX_TICKS_NARROW else "even",
                percent(tick.place),
                tick.text,
            )
        )
    parts.append(Markup('<line class="base" x2="100%" y1="100%" y2="100%"/>'))
    if x_label:
        parts.append(
            Markup('<text class="x-label" x="50%" y="100%" dy="2.9em">{}</text>').format(x_label)
        )
    return Markup("").join(parts) + Markup("</g>")


def percent(place: float) -> str:
    """Return a place, 0 to 1, as SVG takes it."""
    return f"{place * 100:.2f}".rstrip("0").rstrip(".") + "%"


def picked(count: int, most: int = _MAX_ROWS) -> Iterable[int]:
    """Return which of many rows are shown in a table: evenly spaced, the first and the last too."""
    if count <= most:
        return range(count)
    return [round(row * (count - 1) / (most - 1)) for row in range(most)]


def _table(key: str, title: str, data: DataTable) -> Markup:
    shown = [data.rows[place] for place in picked(len(data.rows))]
    total = data.total or len(data.rows)
    few = "" if len(shown) == total else f", {len(shown)} of {total:,} rows"
    head = Markup("").join(
        Markup('<th scope="col">{}</th>').format(column) for column in data.columns
    )
    rows = Markup("").join(
        Markup("<tr>{}</tr>").format(Markup("").join(Markup("<td>{}</td>").format(c) for c in row))
        for row in shown
    )
    return Markup(
        '<details class="data" id="{}"><summary>Data{}</summary>'
        '<div class="scroll" role="group" tabindex="0" aria-label="Data of {}">'
        "<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div></details>"
    ).format(key, few, title or ", ".join(data.columns), head, rows)

"""The common parts of all plots: the caption, the legend, the alt text and the data.

Plots are SVG of the page's width. Places along an axis are percentages, and lines are drawn in a
nested SVG that is stretched, so that texts and strokes keep their size on a phone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from markupsafe import Markup

from tarmac.pages.scales import Scale, Tick

# Number of the classes s0, s1, ... in style.css. Further series reuse them with dashes.
COLOURS = 8

_Item = TypeVar("_Item")

# Side length of the nested SVG. Its integer coordinates are finer than any screen.
STRETCH = 10000

# Texts along the x axis that fit on a phone.
_MAX_TICKS_NARROW = 4

# Rows of the table under a plot, enough to follow the plot by a screen reader or on paper.
_MAX_ROWS = 40


def plot_id(name: str) -> str:
    """Return a metric's name as a part of an ID: ``val-accuracy`` for ``val_accuracy``."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


@dataclasses.dataclass(frozen=True)
class Key:
    """An entry of a legend: a name and its classes in style.css."""

    name: str
    classes: str


@dataclasses.dataclass(frozen=True)
class DataTable:
    """A plot's data as a table, for screen readers and for users who open it.

    Attributes:
        columns: Column headings, from left to right.
        rows: Rows of the table. At most 40 of them are shown.
        total: Number of all rows, if ``rows`` is a selection. Default 0: ``rows`` has all.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: int = 0

    @classmethod
    def of(
        cls, columns: Sequence[str], items: Sequence[_Item], row: Callable[[_Item], Sequence[str]]
    ) -> DataTable:
        """Return a table of at most 40 rows, evenly spaced, with the first and the last.

        Args:
            columns: Column headings, from left to right.
            items: Items of the table, one for each row.
            row: Returns an item's row. Called only for items that are shown.
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
    """Return a plot with its caption, legend and data.

    Args:
        key: ID of the figure, unique in the page: letters, digits and hyphens.
        title: Caption of the figure. Empty if a heading has it.
        body: Markup of the picture, such as `area` returns.
        legend: Entries that explain the colours. Default: none.
        data: Tables of the plot's data. Default: none.
        classes: Further classes of style.css, separated by spaces. Default: none.
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
    """Return a picture's title and description, which `area` refers to."""
    return Markup('<title id="{0}-title">{1}</title><desc id="{0}-desc">{2}</desc>').format(
        key, title, description
    )


def area(key: str, content: Markup, *, height: int, attributes: Markup | None = None) -> Markup:
    """Return a plot's drawing area with room for the texts of its axes.

    Args:
        key: ID of the plot's figure. The IDs of its alt texts begin with it.
        content: Markup from `alt`, followed by the drawing.
        height: Height in CSS pixels, without the axes' texts.
        attributes: Attributes of the area, from `scale_data`. Default: none.
    """
    return Markup(
        '<div class="area" {}><svg role="img" aria-labelledby="{}-title {}-desc" width="100%" '
        'height="{}">{}</svg></div>'
    ).format(attributes or "", key, key, height, content)


def scale_data(scale: Scale, letter: str) -> Markup:
    """Return a scale as attributes, with which the page's script shows values at the pointer.

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
                # The style sheet hides odd ticks on a phone.
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
    """Return a place, 0 to 1, as a percentage for SVG."""
    return f"{place * 100:.2f}".rstrip("0").rstrip(".") + "%"


def picked(count: int, most: int = _MAX_ROWS) -> Iterable[int]:
    """Return the indices of at most ``most`` rows, evenly spaced, with the first and the last."""
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

"""What pages are made of beside plots: tables, figures that matter, messages, commands."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from tarmac.pages.numbers import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Tile:
    """A figure that matters.

    Attributes:
        name: Label of the figure, such as ``Failures``.
        value: The figure, with its unit.
        note: A few words below it.
        state: ``ok``, ``bad``, ``warn`` or ``plain``.
    """

    name: str
    value: str
    note: str | Markup = ""
    state: str = "plain"


def tiles(figures: Sequence[Tile]) -> Markup:
    """Return figures side by side."""
    return Markup('<dl class="tiles">{}</dl>').format(
        Markup("").join(
            Markup('<div class="tile {}"><dt>{}</dt><dd>{}{}</dd></div>').format(
                tile.state,
                tile.name,
                tile.value,
                Markup("<small>{}</small>").format(tile.note) if tile.note else "",
            )
            for tile in figures
        )
    )


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Markup]],
    *,
    label: str,
    numbers: Sequence[int] = (),
) -> Markup:
    """Return a table, which scrolls by itself where a screen is too narrow.

    Args:
        columns: Its head; an empty one is of what needs no name.
        rows: Its cells; the first one of each row names the row.
        label: What it is, for screen readers.
        numbers: Positions of the columns to align right, from 0. Default: none.
    """
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_right(place in numbers), column)
        if column
        else Markup("<td></td>")
        for place, column in enumerate(columns)
    )
    body = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0],
            Markup("").join(
                Markup("<td{}>{}</td>").format(_right(place in numbers), cell)
                for place, cell in enumerate(row[1:], start=1)
            ),
        )
        for row in rows
    )
    return Markup(
        '<div class="scroll" role="group" tabindex="0" aria-label="{}"><table>'
        "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(label, head, body)


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Return names with their values; None is unknown, and lists and mappings are written out."""
    return Markup('<dl class="facts">{}</dl>').format(
        Markup("").join(
            Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(name, _written(value))
            for name, value in pairs
        )
    )


def flat(values: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Return nested values as pairs with dotted names."""
    pairs: list[tuple[str, object]] = []
    for key, value in values.items():
        if isinstance(value, dict) and value:
            pairs += flat(value, f"{prefix}{key}.")
        else:
            pairs.append((f"{prefix}{key}", value))
    return pairs


def message(state: str, text: str | Markup, *, commands: Sequence[str] = ()) -> Markup:
    """Return a sentence that stands out, with what to type.

    Args:
        state: ``ok``, ``bad``, ``warn`` or ``plain``.
        text: Sentence to show, as plain text or markup.
        commands: Each on a line of its own.
    """
    return Markup('<div class="message {}"><p>{}</p>{}</div>').format(
        state, text, pre("\n".join(commands)) if commands else ""
    )


def paragraph(text: str) -> Markup:
    """Return a paragraph."""
    return Markup("<p>{}</p>").format(text)


def chip(text: str, state: str = "plain") -> Markup:
    """Return a word on a coloured ground."""
    return Markup('<span class="chip {}">{}</span>').format(state, text)


def pre(text: str) -> Markup:
    """Return text as it is, such as a command or a log's end; long lines wrap."""
    return Markup("<pre>{}</pre>").format(text)


def details(key: str, summary: str | Markup, body: Markup) -> Markup:
    """Return what opens when it is wanted.

    Args:
        key: Its id, unique in the page.
        summary: What is seen while it is closed.
        body: What is in it.
    """
    return Markup('<details id="{}"><summary>{}</summary>{}</details>').format(key, summary, body)


def _right(is_number: bool) -> Markup:
    return Markup(' class="number"') if is_number else Markup("")


def _written(value: object) -> Markup:
    if value is None or value in ("", (), [], {}):
        return escape(UNKNOWN)
    if isinstance(value, Markup):
        return value
    if isinstance(value, bool):
        return escape("yes" if value else "no")
    if isinstance(value, (list, tuple)):
        return escape(", ".join(str(item) for item in value))
    if isinstance(value, float):
        return escape(f"{value:.6g}")
    return escape(value)

"""The parts of pages other than plots: tables, tiles, messages, commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup, escape

from tarmac.pages.numbers import UNKNOWN


@dataclasses.dataclass(frozen=True)
class Tile:
    """An important figure of a page.

    Attributes:
        name: Label of the figure, such as ``Failures``.
        value: The figure, with its unit.
        note: A few words below the figure. Empty for none.
        state: Style of the tile: ``ok``, ``bad``, ``warn`` or ``plain``.
    """

    name: str
    value: str
    note: str | Markup = ""
    state: str = "plain"


def tiles(figures: Sequence[Tile]) -> Markup:
    """Return tiles side by side."""
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
    """Return a table, which scrolls on a narrow screen.

    Args:
        columns: Headings of the columns. Empty for a column without a heading.
        rows: Cells of each row. The first cell is the row's heading.
        label: Description of the table for screen readers.
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
    """Return names with their values as text; None and empty values are shown as unknown."""
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
    """Return a highlighted sentence, with commands below it.

    Args:
        state: Style of the message: ``ok``, ``bad``, ``warn`` or ``plain``.
        text: Sentence to show, as plain text or markup.
        commands: Commands to show, one on each line. Default: none.
    """
    return Markup('<div class="message {}"><p>{}</p>{}</div>').format(
        state, text, pre("\n".join(commands)) if commands else ""
    )


def paragraph(text: str) -> Markup:
    """Return a paragraph."""
    return Markup("<p>{}</p>").format(text)


def chip(text: str, state: str = "plain") -> Markup:
    """Return a word with a coloured background."""
    return Markup('<span class="chip {}">{}</span>').format(state, text)


def pre(text: str) -> Markup:
    """Return preformatted text, such as a command or a log's end; long lines wrap."""
    return Markup("<pre>{}</pre>").format(text)


def details(key: str, summary: str | Markup, body: Markup) -> Markup:
    """Return a collapsible block.

    Args:
        key: ID of the block, unique in the page.
        summary: Text that is visible while the block is closed.
        body: Content of the block, as markup.
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

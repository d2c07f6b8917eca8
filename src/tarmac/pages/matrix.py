"""A matrix as a table with cells coloured by their values."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from tarmac.pages.figure import figure
from tarmac.pages.numbers import known, worded

# Colour strengths in percent. Between the two, neither the page's text colour nor its background
# colour is readable on a cell, in light or dark mode.
_MAX_PALE, _LEAST_DEEP = 50.0, 86.0
_DEEP_FROM = 0.55


def matrix(
    key: str,
    title: str,
    values: Sequence[Sequence[float | None]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_label: str = "",
    column_label: str = "",
    unit: str = "",
    shades: Sequence[Sequence[float | None]] | None = None,
    strong: Sequence[Sequence[bool]] | None = None,
) -> Markup:
    """Draw a matrix as a table, which is both picture and data.

    Args:
        key: ID of the figure, unique in the page.
        title: Caption of the figure. Empty for none.
        values: Values row by row. None where unknown; 0 is drawn pale.
        rows: Names of the rows.
        columns: Names of the columns.
        row_label: Meaning of the rows, such as ``is``. Shown only together with ``column_label``.
        column_label: Meaning of the columns. Shown only together with ``row_label``.
        unit: Unit of the values, in the form that `tarmac.pages.numbers.worded` takes.
        shades: Strength of each cell's colour, 0 to 1. Default: the value over the largest value.
        strong: Whether each cell is correct, such as the diagonal of a confusion matrix. Correct
            cells have another colour.
    """
    largest = max((abs(known(v) or 0.0) for row in values for v in row), default=0.0) or 1.0
    body = Markup("")
    for place, row in enumerate(values):
        cells = Markup("")
        for column, value in enumerate(row):
            shade = shades[place][column] if shades is not None else (known(value) or 0) / largest
            right = strong is not None and strong[place][column]
            percent, is_deep = _strength(shade or 0.0)
            cells += Markup('<td class="cell{}{}" style="--w:{:.0f}%">{}</td>').format(
                " right" if right else "",
                " deep" if is_deep else "" if value else " none",
                percent,
                worded(value, unit),
            )
        body += Markup('<tr><th scope="row">{}</th>{}</tr>').format(rows[place], cells)
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in columns)
    corner = f"{row_label} \\ {column_label}" if row_label and column_label else ""
    table = Markup(
        '<div class="scroll" role="group" tabindex="0" aria-label="{}"><table class="matrix">'
        "<thead><tr><td>{}</td>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(title, corner, head, body)
    return figure(key, title, table)


def _strength(shade: float) -> tuple[float, bool]:
    """Return a cell's colour strength in percent, and whether its text is in background colour."""
    shade = min(max(shade, 0.0), 1.0)
    if shade <= _DEEP_FROM:
        return _MAX_PALE * shade / _DEEP_FROM, False
    above = (shade - _DEEP_FROM) / (1 - _DEEP_FROM)
    return _LEAST_DEEP + (100 - _LEAST_DEEP) * above, True

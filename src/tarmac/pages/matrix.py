"""A matrix as a table whose cells are coloured by their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from tarmac.pages.figure import figure
from tarmac.pages.numbers import known, worded

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["matrix"]


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
    """Draw a matrix; the table is picture and data at once.

    Args:
        key: The figure's id.
        title: Its caption.
        values: Row by row; None where one is not known, 0 is written pale.
        rows: Names of the rows.
        columns: Names of the columns.
        row_label: What rows are.
        column_label: What columns are.
        unit: Of the values.
        shades: How strong each cell's colour is, 0 to 1; by default its value over the largest.
        strong: Which cells are right rather than wrong, such as a confusion matrix's diagonal: they
            have another colour.
    """
    largest = max((abs(known(v) or 0.0) for row in values for v in row), default=0.0) or 1.0
    body = Markup("")
    for place, row in enumerate(values):
        cells = Markup("")
        for column, value in enumerate(row):
            shade = shades[place][column] if shades is not None else (known(value) or 0) / largest
            right = strong is not None and strong[place][column]
            cells += Markup('<td class="cell{}{}" style="--w:{:.0f}%">{}</td>').format(
                " right" if right else "",
                " deep" if (shade or 0) > 0.55 else "" if value else " none",
                100 * min(max(shade or 0.0, 0.0), 1.0),
                worded(value, unit),
            )
        body += Markup('<tr><th scope="row">{}</th>{}</tr>').format(rows[place], cells)
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in columns)
    corner = f"{row_label} \\ {column_label}" if row_label and column_label else ""
    table = Markup(
        '<div class="scroll" role="region" tabindex="0" aria-label="{}"><table class="matrix">'
        "<thead><tr><td>{}</td>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(title, corner, head, body)
    return figure(key, title, table)

"""Columns of a view: the choice of columns that fit, and their widths."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from tarmac.monitor.drawing.lines import Line, Span, cut, num_cells


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a view.

    Attributes:
        key: Name of the column, by which it can be hidden.
        width: Width in cells; the minimum for a column that stretches.
        rank: Columns of the highest rank are left out first; columns of rank 0 never are.
        is_right: Whether it is aligned to the right, as numbers are.
        stretches: Whether it takes the remaining width.
        comfort: Width of a stretching column, in cells, below which optional columns, those of a
            rank above 5, are left out.
    """

    key: str
    title: str
    width: int
    rank: int
    is_right: bool = False
    stretches: bool = False
    comfort: int = 0


# Columns of a higher rank are optional.
_MERE_INTEREST = 5


def choose(
    columns: Sequence[Column], width: int, hidden: Collection[str] = ()
) -> tuple[Column, ...]:
    """Return the columns that fit, with their widths.

    Args:
        columns: All columns, from left to right.
        width: Width of a line, in cells.
        hidden: Keys of the columns that the user hides; columns of rank 0 stay.
    """
    wanted = [column for column in columns if column.rank == 0 or column.key not in hidden]
    ranks = sorted({column.rank for column in wanted})
    while len(ranks) > 1 and _comfortable([c for c in wanted if c.rank <= ranks[-1]]) > width:
        ranks.pop()
    kept = [column for column in wanted if column.rank <= ranks[-1]]
    # If even these do not fit, a cut name is better than a cut number.
    spare = width - _needed(kept)
    return tuple(
        dataclasses.replace(column, width=max(1, column.width + spare))
        if column.stretches
        else column
        for column in kept
    )


def heading(columns: Sequence[Column]) -> Line:
    """Return the line of column titles."""
    return table_line(columns, {column.key: Span(column.title, "title") for column in columns})


def table_line(
    columns: Sequence[Column], cells: Mapping[str, Span], *, ascii_only: bool = False
) -> Line:
    """Return a row: each cell cut or padded to its column's width, separated by spaces."""
    spans: list[Span] = []
    for number, column in enumerate(columns):
        if number:
            spans.append(Span(" "))
        cell = cells.get(column.key, Span("-", "dim"))
        text = cut(cell.text, column.width, ascii_only=ascii_only)
        fill = " " * (column.width - num_cells(text))
        if column.is_right:
            spans += [Span(fill), Span(text, cell.tone)]
        else:
            spans += [Span(text, cell.tone), Span(fill)]
    return tuple(span for span in spans if span.text)


def _comfortable(columns: Sequence[Column]) -> int:
    has_more = any(column.rank > _MERE_INTEREST for column in columns)
    short = [column.comfort - column.width for column in columns if has_more and column.comfort]
    return _needed(columns) + sum(short)


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(columns) - 1

"""What is around and above the rows of the main screen: views by name, banner, keys, filter."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.monitor.drawing import (
    Span,
    finding_lines,
    gpus_view,
    hosts_view,
    runs_view,
    tasks_view,
    trouble_lines,
)
from tarmac.monitor.drawing.gpus import COLUMNS as GPU_COLUMNS
from tarmac.monitor.drawing.hosts import COLUMNS as HOST_COLUMNS
from tarmac.monitor.drawing.lines import joined
from tarmac.monitor.drawing.runs import COLUMNS as RUN_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarmac.monitor.drawing import Line, Look, Row, View
    from tarmac.monitor.drawing.columns import Column
    from tarmac.monitor.snapshot import Snapshot

__all__ = ["VIEWS", "NamedView", "banner_lines", "keys_line", "tab_line", "with_text"]


@dataclasses.dataclass(frozen=True)
class NamedView:
    """A view that a key leads to.

    Attributes:
        nothing: What is said where it has no row.
    """

    name: str
    draw: Callable[[Snapshot, Look], View]
    columns: Sequence[Column]
    nothing: str


VIEWS = (
    NamedView("GPUs", gpus_view, GPU_COLUMNS, "no GPU and no run is here"),
    NamedView("runs", runs_view, RUN_COLUMNS, "no run is at work"),
    NamedView("tasks", tasks_view, RUN_COLUMNS, "no task, search or rank is at work"),
    NamedView("hosts", hosts_view, HOST_COLUMNS, "no host is watched"),
)

_KEYS = (
    ("q", "leave"),
    ("?", "help"),
    ("Enter", "details"),
    ("/", "filter"),
    ("s", "stop"),
    ("l", "log"),
    ("t", "tree"),
    ("e", "environment"),
    ("c", "check"),
    ("o", "columns"),
    ("Space", "mark"),
    ("p", "pause"),
)

# How many lines of a banner a terminal of more than so many lines has room for.
_BANNER_LINES = ((24, 6), (16, 3), (0, 1))


def banner_lines(snapshot: Snapshot, look: Look, height: int, problem: str) -> list[Line]:
    """Return what is wrong, in as few lines as the terminal has room for.

    Args:
        snapshot: What is shown.
        look: How to draw.
        height: Of the terminal.
        problem: Why nothing newer comes; empty while it does.
    """
    lines = [*trouble_lines(snapshot, look), *finding_lines(snapshot, look)]
    most = next(number for above, number in _BANNER_LINES if height > above or above == 0)
    if len(lines) > most:
        rest = len(lines) - most + 1
        lines = [*lines[: most - 1], (Span(f"{rest} lines more of this: c", "warn"),)]
    if problem:
        lines.insert(0, (Span(look.clean(problem), "bad"),))
    return lines


def tab_line(chosen: int, states: Sequence[str]) -> Line:
    """Return the names of the views, and what is special about the screen now.

    Two spans belong to each view: its name, and a space.
    """
    spans: list[Span] = []
    for number, view in enumerate(VIEWS):
        spans += [
            Span(f" {number + 1} {view.name} ", "tab" if number == chosen else ""),
            Span(" "),
        ]
    return (*spans, Span(f" {', '.join(states)}" if states else "", "held"))


def keys_line(look: Look) -> Line:
    """Return the keys, as many as fit."""
    parts: list[Line] = [(Span(key, "strong"), Span(f" {word}", "dim")) for key, word in _KEYS]
    return joined(parts, look.width)


def with_text(rows: Sequence[Row], text: str) -> Sequence[Row]:
    """Return the rows with a text in them, each with what it is below or has below it."""
    if not text:
        return rows
    blocks: list[list[Row]] = []
    for row in rows:
        if (row.depth == 0 and row.key) or not blocks:
            blocks.append([])
        blocks[-1].append(row)
    wanted = text.casefold()
    return [
        row
        for block in blocks
        if any(wanted in _text_of(one).casefold() for one in block)
        for row in block
    ]


def _text_of(row: Row) -> str:
    return "".join(span.text for span in row.line)

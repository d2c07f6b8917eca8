"""The frame of the main screen's rows: named views, banner, keys and filter."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.drawing import (
    Line,
    Look,
    Row,
    Span,
    View,
    finding_lines,
    gpus_view,
    hosts_view,
    runs_view,
    tasks_view,
    trouble_lines,
)
from tarmac.monitor.drawing.columns import Column
from tarmac.monitor.drawing.gpus import COLUMNS as GPU_COLUMNS
from tarmac.monitor.drawing.hosts import COLUMNS as HOST_COLUMNS
from tarmac.monitor.drawing.lines import joined, width_of
from tarmac.monitor.drawing.runs import COLUMNS as RUN_COLUMNS

if TYPE_CHECKING:
    from tarmac.monitor.snapshot import Snapshot


@dataclasses.dataclass(frozen=True)
class NamedView:
    """A view of the main screen, with its name and columns.

    Attributes:
        nothing: Text of a view without rows.
    """

    name: str
    draw: Callable[[Snapshot, Look], View]
    columns: Sequence[Column]
    nothing: str

    def shown(self, snapshot: Snapshot, look: Look, text: str) -> View:
        """Return the view with only rows that match a text, or a row that says there are none."""
        view = self.draw(snapshot, look)
        rows = tuple(with_text(view.rows, text))
        none = look.clean(f"nothing has {text!r} in it" if text else self.nothing)
        return View(view.heading, rows or (Row((), (Span(none, "dim"),)),))


VIEWS = (
    NamedView("GPUs", gpus_view, GPU_COLUMNS, "no GPU and no run is here"),
    NamedView("runs", runs_view, RUN_COLUMNS, "no run is active"),
    NamedView("tasks", tasks_view, RUN_COLUMNS, "no task, search or rank is active"),
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

_PAGE_KEYS = (
    ("Esc", "back"),
    ("s", "stop"),
    ("l", "log"),
    ("t", "tree"),
    ("e", "environment"),
    ("p", "pause"),
)

# For terminals with more lines than the first number, the maximum number of banner lines.
_BANNER_LINES = ((24, 6), (16, 3), (0, 1))


def banner_lines(snapshot: Snapshot, look: Look, height: int, problem: str) -> list[Line]:
    """Return the problems, in as many lines as the terminal has room for.

    Args:
        snapshot: Snapshot on the screen, with its findings and slow work.
        look: Width, encoding and other settings of the drawing.
        height: Height of the terminal, in lines.
        problem: Why no newer snapshot comes; empty while one does.
    """
    lines = [*trouble_lines(snapshot, look), *finding_lines(snapshot, look)]
    most = next(number for above, number in _BANNER_LINES if height > above or above == 0)
    if len(lines) > most:
        rest = len(lines) - most + 1
        lines = [*lines[: most - 1], (Span(f"{rest} lines more of this: c", "warn"),)]
    if problem:
        lines.insert(0, (Span(look.clean(problem), "bad"),))
    return lines


def findings_rows(snapshot: Snapshot, look: Look) -> list[Row]:
    """Return all problems, as the rows of a page."""
    lines = [*trouble_lines(snapshot, look), *finding_lines(snapshot, look)]
    none = (Span("nothing was found; a full check: tarmac check", "dim"),)
    return [Row((), line) for line in lines or [none]]


def tab_line(chosen: int, states: Sequence[str], width: int) -> Line:
    """Return the names of the views, and the special states of the screen.

    Each view has two spans: its name, and a space. If the line is too long, only the chosen view
    has its name, or none has.
    """
    names = [view.name for view in VIEWS]
    only_chosen = [name if number == chosen else "" for number, name in enumerate(names)]
    lines = [_tabs(chosen, states, shown) for shown in (names, only_chosen, [""] * len(names))]
    return next((line for line in lines if width_of(line) <= width), lines[-1])


def view_at(line: Line, x: int) -> int | None:
    """Return the view whose name in the tab line is at a cell; None beyond the names."""
    end = 0
    for number, span in enumerate(line[: 2 * len(VIEWS)]):
        end += len(span.text)
        if x < end:
            return number // 2
    return None


def _tabs(chosen: int, states: Sequence[str], names: Sequence[str]) -> Line:
    spans: list[Span] = []
    for number, name in enumerate(names):
        text = f" {number + 1} {name} " if name else f"{number + 1}"
        spans += [Span(text, "tab" if number == chosen else ""), Span(" ")]
    return (*spans, state_span(states))


def state_span(states: Sequence[str]) -> Span:
    """Return the special states of the screen, such as paused."""
    return Span(f" {', '.join(states)}" if states else "", "held")


def keys_line(look: Look, *, of_page: bool = False) -> Line:
    """Return as many keys of the views, or of a page above them, as fit."""
    keys = _PAGE_KEYS if of_page else _KEYS
    parts: list[Line] = [(Span(key, "strong"), Span(f" {word}", "dim")) for key, word in keys]
    return joined(parts, look.width)


def with_text(rows: Sequence[Row], text: str) -> Sequence[Row]:
    """Return the rows that match a text, each with its ancestors and descendants."""
    if not text:
        return rows
    wanted = text.casefold()
    entries = _entries(rows)
    kept: set[int] = set()
    above: list[int] = []
    found_depth: int | None = None
    for number, entry in enumerate(entries):
        depth = entry[0].depth
        above = [*(other for other in above if entries[other][0].depth < depth), number]
        if found_depth is not None and depth <= found_depth:
            found_depth = None
        if any(wanted in _text_of(row).casefold() for row in entry):
            kept.update(above)
            found_depth = depth if found_depth is None else found_depth
        elif found_depth is not None:
            kept.add(number)
    return [row for number in sorted(kept) for row in entries[number]]


def _entries(rows: Sequence[Row]) -> list[list[Row]]:
    """Return groups of rows: each row with the rows that continue it."""
    entries: list[list[Row]] = []
    for row in rows:
        if row.key or not entries or row.depth <= entries[-1][0].depth:
            entries.append([row])
        else:
            entries[-1].append(row)
    return entries


def _text_of(row: Row) -> str:
    """Return a row's text, with the whole name of its work, which may be cut on the screen."""
    name = f" {row.key[2]}" if row.key[:1] == ("work",) else ""
    return "".join(span.text for span in row.line) + name

"""Widgets that draw lines with tones: fixed lines, and rows to choose from.

They use Textual's line interface and draw only lines that have changed: a table of widgets would
cost several times as much a second.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from rich.style import Style

    from tarmac.monitor.drawing import Line, Row

# Cells on the left that mark the chosen row and the marked rows.
GUTTER = 1


class LineBox(Widget):
    """A box of fixed lines, as high as its number of lines.

    Args:
        styles_of: The style of each tone.
        name: ID of the widget, for the style sheet.
    """

    class Clicked(Message):
        """A message about a click into the box.

        Attributes:
            box: Box that received the click.
            x: Cell of the click, from the left.
        """

        def __init__(self, box: LineBox, x: int) -> None:
            self.box = box
            self.x = x
            super().__init__()

    def __init__(self, styles_of: Mapping[str, Style], name: str) -> None:
        super().__init__(id=name)
        self._styles = styles_of
        self._lines: tuple[Line, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of the box."""
        return self._lines

    def show(self, lines: Sequence[Line]) -> None:
        """Replace the lines."""
        if self._lines == tuple(lines):
            return
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
        self._lines = tuple(lines)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw a line."""
        line = self._lines[y] if y < len(self._lines) else ()
        return _strip(line, self._styles, self.rich_style, self.size.width)

    def on_click(self, event: events.Click) -> None:
        """Post a `Clicked` message."""
        self.post_message(self.Clicked(self, event.x))


class RowsView(ScrollView, can_focus=True):
    """A list of rows, of which one is chosen and some may be marked.

    Args:
        styles_of: The style of each tone.
        ends_last: Whether it stays at its end while rows are added, as logs do.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "to(0)", show=False),
        Binding("end,G", "to(-1)", show=False),
        Binding("space", "mark", show=False),
        Binding("enter", "open", show=False),
    ]

    class Opened(Message):
        """A message that the user wants details of the chosen row."""

        def __init__(self, row: Row) -> None:
            self.row = row
            super().__init__()

    class Marked(Message):
        """A message that the user has marked or unmarked a row."""

        def __init__(self, row: Row) -> None:
            self.row = row
            super().__init__()

    def __init__(self, styles_of: Mapping[str, Style], *, ends_last: bool = False) -> None:
        super().__init__()
        self._styles = styles_of
        self._ends_last = ends_last
        self._rows: tuple[Row, ...] = ()
        self._cursor = 0
        self._marked: set[tuple[str, ...]] = set()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the list."""
        return self._rows

    @property
    def chosen(self) -> Row | None:
        """The chosen row; None if no row can be chosen."""
        row = self._rows[self._cursor] if self._cursor < len(self._rows) else None
        return row if row is not None and row.key else None

    @property
    def marked(self) -> frozenset[tuple[str, ...]]:
        """Keys of the rows that are marked."""
        return frozenset(self._marked)

    def show(self, rows: Sequence[Row]) -> None:
        """Replace the rows; the chosen row stays chosen while it exists."""
        before, chosen = self._rows, self.chosen
        self._rows = tuple(rows)
        keys = {row.key for row in rows}
        self._marked &= keys
        if chosen is not None and chosen.key in keys:
            self._cursor = next(n for n, row in enumerate(rows) if row.key == chosen.key)
        else:
            self._cursor = self._nearest(self._cursor, 1)
        if len(before) != len(self._rows):
            at_end = self.scroll_y >= self.max_scroll_y
            self.virtual_size = Size(max(0, self.scrollable_content_region.width), len(rows))
            if self._ends_last and at_end:
                self.scroll_end(animate=False)
            self.refresh()
            return
        chosen_now = self.chosen
        for number, (old, new) in enumerate(zip(before, self._rows, strict=True)):
            if old != new or new is chosen_now or old is chosen:
                self.refresh_line(number)

    def unmark(self) -> None:
        """Unmark all rows."""
        self._marked.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw a row."""
        number = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        base = self.rich_style
        if number >= len(self._rows):
            return Strip.blank(width, base)
        row = self._rows[number]
        is_chosen = number == self._cursor and bool(row.key) and self.has_focus
        is_marked = row.key in self._marked if row.key else False
        if is_chosen:
            base += self._styles["chosen"]
        gutter = {(True, True): "#", (True, False): ">", (False, True): "*"}.get(
            (is_chosen, is_marked), " "
        )
        strip = _strip(row.line, self._styles, base, width - GUTTER)
        return Strip([Segment(gutter, base + self._styles["strong"]), *strip])

    def on_focus(self) -> None:
        """Redraw, to highlight the chosen row."""
        self.refresh()

    def on_blur(self) -> None:
        """Redraw, without the highlight of the chosen row."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Choose the row that is clicked; a second click opens it."""
        number = event.y + self.scroll_offset.y
        if number < len(self._rows):
            self._choose(self._nearest(number, -1))
            if event.chain > 1:
                self.action_open()

    def action_move(self, step: int) -> None:
        """Choose the next row up or down, or scroll if no row can be chosen."""
        if not any(row.key for row in self._rows):
            self.scroll_relative(y=step, animate=False)
            return
        self._choose(self._nearest(self._cursor + step, step))

    def action_page(self, step: int) -> None:
        """Move one screen up or down."""
        height = max(1, self.size.height - 1)
        if not any(row.key for row in self._rows):
            self.scroll_relative(y=step * height, animate=False)
            return
        self._choose(self._nearest(self._cursor + step * height, step))

    def action_to(self, number: int) -> None:
        """Move to the first or the last row."""
        if not any(row.key for row in self._rows):
            (self.scroll_home if number == 0 else self.scroll_end)(animate=False)
            return
        self._choose(self._nearest(0, 1) if number == 0 else self._nearest(len(self._rows), -1))

    def action_mark(self) -> None:
        """Mark the chosen row, or unmark it, and go to the next."""
        if (row := self.chosen) is not None:
            self._marked ^= {row.key}
            self.refresh_line(self._cursor)
            self.post_message(self.Marked(row))
            self.action_move(1)

    def action_open(self) -> None:
        """Post an `Opened` message for the chosen row."""
        if (row := self.chosen) is not None:
            self.post_message(self.Opened(row))

    def _choose(self, number: int) -> None:
        before, self._cursor = self._cursor, number
        self.refresh_line(before)
        self.refresh_line(number)
        region = Region(0, number, self.scrollable_content_region.width, 1)
        self.scroll_to_region(region, animate=False, x_axis=False)

    def _nearest(self, number: int, step: int) -> int:
        """Return the nearest row that can be chosen, first in the direction of ``step``."""
        number = min(max(number, 0), max(0, len(self._rows) - 1))
        onward = range(number, len(self._rows)) if step > 0 else range(number, -1, -1)
        back = range(number, -1, -1) if step > 0 else range(number, len(self._rows))
        fitting = (n for n in itertools.chain(onward, back) if self._rows[n].key)
        return next(fitting, 0)


def _strip(line: Line, styles: Mapping[str, Style], base: Style, width: int) -> Strip:
    segments = [
        Segment(span.text, base + styles[span.tone] if span.tone in styles else base)
        for span in line
    ]
    return Strip(segments).adjust_cell_length(max(0, width), base)

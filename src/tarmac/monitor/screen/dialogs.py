"""Screens above the main one: pages of lines, a question, and the menu of columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from tarmac.monitor.drawing import Line, Row, Span
from tarmac.monitor.drawing.columns import Column
from tarmac.monitor.drawing.lines import fitted
from tarmac.monitor.screen.widgets import GUTTER, LineBox, RowsView

if TYPE_CHECKING:
    from rich.style import Style
    from textual.app import ComposeResult


class Page(Screen[None]):
    """A page of lines that fills the screen, redrawn with each snapshot.

    Args:
        title: Title text above the lines.
        rows_for: Function that draws the rows for a width in cells.
        styles_of: The style of each tone.
        frame_for: Function that draws the text after the title and the line below the rows, for a
            width in cells.
        ends_last: Whether it begins at its end and stays there, as logs do.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,left", "leave", show=False),
    ]

    def __init__(
        self,
        title: str,
        rows_for: Callable[[int], Sequence[Row]],
        styles_of: Mapping[str, Style],
        frame_for: Callable[[int], tuple[Line, Line]],
        *,
        ends_last: bool = False,
    ) -> None:
        super().__init__()
        self._title_text = title
        self._frame_for = frame_for
        self._rows_for = rows_for
        self._box = LineBox(styles_of, "page-title")
        self._view = RowsView(styles_of, ends_last=ends_last)
        self._footer = LineBox(styles_of, "page-footer")
        self._ends_last = ends_last

    @property
    def title_text(self) -> str:
        """The title of the page."""
        return self._title_text

    def compose(self) -> ComposeResult:
        """Yield the title, the rows and the line of keys."""
        yield self._box
        yield self._view
        yield self._footer

    def on_mount(self) -> None:
        """Draw, and focus the rows, so that keys scroll."""
        self._view.focus()
        self.redraw()
        if self._ends_last:
            self.call_after_refresh(self._view.scroll_end, animate=False)

    def on_resize(self) -> None:
        """Redraw for the new width."""
        self.call_after_refresh(self.redraw)

    def redraw(self) -> None:
        """Redraw all lines."""
        width = max(1, self.size.width - GUTTER - 1)
        states, keys = self._frame_for(width)
        self._box.show([(Span(f" {self._title_text}  ", "title"), *states)])
        self._footer.show([keys])
        is_ascii = self.app.has_class("ascii")
        self._view.show(
            [
                dataclasses.replace(row, line=fitted(row.line, width, ascii_only=is_ascii))
                for row in self._rows_for(width)
            ]
        )

    def on_rows_view_opened(self) -> None:
        """Close the page on Enter, the key that opened it."""
        self.action_leave()

    def action_leave(self) -> None:
        """Close the page."""
        self.dismiss()


class Question(ModalScreen[bool]):
    """A question whether to act; only y agrees.

    Args:
        text: Question to show, safe for a terminal.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q,enter,space", "answer(False)", show=False),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Yield the question and its keys."""
        with Vertical(id="question"):
            yield Static(self._text, markup=False)
            yield Static("y: yes   n: no", markup=False)

    def action_answer(self, answer: bool) -> None:
        """Close the question with an answer."""
        self.dismiss(answer)


class ColumnMenu(ModalScreen[frozenset[str]]):
    """The menu of a view's columns.

    Args:
        columns: All columns of the view. Columns of rank 0 are not in the menu.
        hidden: Keys of the columns that are hidden now.
        styles_of: The style of each tone.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,o,q", "leave", show=False)]

    def __init__(
        self, columns: Sequence[Column], hidden: frozenset[str], styles_of: Mapping[str, Style]
    ) -> None:
        super().__init__()
        self._columns = [column for column in columns if column.rank]
        self._hidden = hidden
        self._view = RowsView(styles_of)

    def compose(self) -> ComposeResult:
        """Yield the list of columns that can be hidden."""
        with Vertical(id="columns"):
            yield Static("Space: show or hide   Esc: done", markup=False)
            yield self._view

    def on_mount(self) -> None:
        """Focus and draw the list."""
        self._view.focus()
        self._draw()

    def on_rows_view_marked(self, event: RowsView.Marked) -> None:
        """Show or hide the marked column."""
        self._hidden ^= {event.row.key[1]}
        self._view.unmark()
        self._draw()

    def on_rows_view_opened(self, event: RowsView.Opened) -> None:
        """Show or hide the column on Enter, as on Space."""
        self._hidden ^= {event.row.key[1]}
        self._draw()

    def action_leave(self) -> None:
        """Close the menu with the hidden columns."""
        self.dismiss(self._hidden)

    def _draw(self) -> None:
        self._view.show(
            [
                Row(
                    ("column", column.key),
                    (
                        Span("[ ] " if column.key in self._hidden else "[x] "),
                        Span(column.title.lower() or column.key),
                    ),
                )
                for column in self._columns
            ]
        )

"""The application of the screen: views, keys and their actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from tarmac.errors import RequestError
from tarmac.monitor.drawing import Line, Look, Row, Span, head_line
from tarmac.monitor.screen import ScreenOptions
from tarmac.monitor.screen.acting import ACTIONS, plan_action
from tarmac.monitor.screen.colours import LAYOUT, THEMES, styles
from tarmac.monitor.screen.details import details_rows
from tarmac.monitor.screen.dialogs import ColumnMenu, Page, Question
from tarmac.monitor.screen.front import (
    VIEWS,
    banner_lines,
    findings_rows,
    keys_line,
    state_span,
    tab_line,
    view_at,
)
from tarmac.monitor.screen.help import help_rows
from tarmac.monitor.screen.history import History
from tarmac.monitor.screen.local import environment_rows, pids_of, tree_rows, work_of
from tarmac.monitor.screen.logs import log_page_rows
from tarmac.monitor.screen.watching import Broke, Came, Failed, FeedReader
from tarmac.monitor.screen.widgets import GUTTER, LineBox, RowsView
from tarmac.monitor.snapshot import Snapshot, Work

if TYPE_CHECKING:
    from tarmac.monitor.feed import Feed

# Time for which a message replaces the line of keys.
_SAID_S = 5.0


class TopApp(App[None]):
    """The screen that shows a feed's snapshots.

    Args:
        feed: Source of the snapshots. Closed at the end.
        options: Appearance and permissions of the screen.
        encoding: Encoding of the terminal. Default: UTF-8.

    Attributes:
        error: Unexpected error that ended the screen; None without one.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = LAYOUT
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n + 1), f"view({n})", show=False) for n in range(len(VIEWS))),
        Binding("tab", "view_next", show=False, priority=True),
        Binding("t", "tree", show=False),
        Binding("e", "environment", show=False),
        Binding("l", "log", show=False),
        Binding("c", "check", show=False),
        Binding("slash", "filter", show=False),
        Binding("o", "columns", show=False),
        Binding("p", "pause", show=False),
        Binding("question_mark,h,f1", "help", show=False),
        Binding("s", "act('stop')", show=False),
        Binding("T", "act('terminate')", show=False),
        Binding("K", "act('kill')", show=False),
        Binding("escape", "unfilter", show=False),
        Binding("q", "quit", show=False),
    ]

    def __init__(self, feed: Feed, options: ScreenOptions, encoding: str = "utf-8") -> None:
        super().__init__()
        self.error: Exception | None = None
        self._options = options
        self._encoding = encoding
        self._styles = styles(light=options.light)
        self._reader = FeedReader(feed, options.interval_s, self.post_message)
        self._history = History()
        self._snapshot: Snapshot | None = None
        self._newest: Snapshot | None = None
        self._view = 0
        self._filter = ""
        self._hidden: dict[int, frozenset[str]] = {}
        self._is_paused = False
        self._has_ended = False
        self._problem = ""
        self._said = ""
        self._head = LineBox(self._styles, "head")
        self._tabs = LineBox(self._styles, "tabs")
        self._heading = LineBox(self._styles, "heading")
        self._rows = RowsView(self._styles)
        self._field = Input(placeholder="text to look for", id="filter", compact=True)
        self._footer = LineBox(self._styles, "footer")

    def compose(self) -> ComposeResult:
        """Yield the widgets, from top to bottom."""
        yield self._head
        yield self._tabs
        yield self._heading
        yield self._rows
        yield self._field
        yield self._footer

    def on_mount(self) -> None:
        """Set the theme and start to read the feed."""
        theme = THEMES[self._options.light]
        self.register_theme(theme)
        self.theme = theme.name
        self.set_class(self._options.ascii_only, "ascii")
        self._rows.focus()
        self._draw()
        self._reader.start()

    def on_unmount(self) -> None:
        """Stop reading the feed."""
        self._reader.stop()

    def on_came(self, event: Came) -> None:
        """Store a snapshot, and show it unless the screen is paused."""
        self._history.add(event.snapshot)
        self._newest = event.snapshot
        if self._is_paused and self._snapshot is not None:
            return
        self._snapshot = event.snapshot
        self._draw()

    def on_failed(self, event: Failed) -> None:
        """Show why no new snapshot comes."""
        self._problem = event.problem
        self._draw()

    def on_broke(self, event: Broke) -> None:
        """Exit, so that the error is raised like any other."""
        self.error = event.error
        self.exit()

    def on_ended(self) -> None:
        """Show that the feed has ended."""
        self._has_ended = True
        self._draw()

    def on_resize(self) -> None:
        """Redraw for the new size."""
        self.call_after_refresh(self._draw)

    def on_rows_view_opened(self, event: RowsView.Opened) -> None:
        """Open the details of a row."""
        key = event.row.key
        self._open(
            "details",
            lambda width: details_rows(
                key,
                self._shown,
                self._history,
                self._look(width),
                elsewhere=self._options.elsewhere,
            ),
        )

    def on_line_box_clicked(self, event: LineBox.Clicked) -> None:
        """Switch to the view whose name is clicked."""
        number = view_at(self._tabs.lines[0], event.x) if event.box is self._tabs else None
        if number is not None:
            self.action_view(number)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only rows with the text."""
        self._filter = event.value
        self._draw()

    def on_input_submitted(self) -> None:
        """Return to the rows, and keep the filter."""
        self._rows.focus()
        self._field.set_class(bool(self._filter), "shown")

    def action_view(self, number: int) -> None:
        """Close all pages and switch to a view."""
        if self._leave_pages():
            self._view = number
            self._draw()

    def action_view_next(self) -> None:
        """Switch to the next view."""
        self.action_view((self._view + 1) % len(VIEWS))

    def action_filter(self) -> None:
        """Open the filter field of a view."""
        if self._leave_pages():
            self._field.set_class(True, "shown")
            self.call_after_refresh(self._field.focus)

    def action_unfilter(self) -> None:
        """Clear the filter and all marks."""
        self._field.value = ""
        self._field.set_class(False, "shown")
        self._rows.unmark()
        self._rows.focus()
        self._draw()

    def action_columns(self) -> None:
        """Open the menu of this view's columns."""
        if not self._leave_pages():
            return
        number = self._view

        def chosen(hidden: frozenset[str] | None) -> None:
            if hidden is not None:
                self._hidden[number] = hidden
                self._draw()

        columns, hidden = VIEWS[number].columns, self._hidden.get(number, frozenset())
        self.push_screen(ColumnMenu(columns, hidden, self._styles), chosen)

    def action_pause(self) -> None:
        """Pause or resume the display."""
        self._is_paused = not self._is_paused
        if not self._is_paused:
            self._snapshot = self._newest
        self._draw()

    def action_help(self) -> None:
        """Open the help on keys."""
        self._open("help", lambda _: help_rows())

    def action_check(self) -> None:
        """Open the page of all findings."""
        self._open(
            "findings of the last check and of the driver",
            lambda width: findings_rows(self._shown, self._look(width)),
        )

    def action_log(self) -> None:
        """Open the end of the log of the chosen work."""
        work = self._chosen_work()
        if work is None:
            return self._say("choose a run or a task first")
        if self._options.elsewhere:
            return self._say(f"{self._options.elsewhere}: its log is not read here")

        return self._open(
            f"log of {self._look().clean(work.id)}",
            lambda width: log_page_rows(work, self._look(width)),
            ends_last=True,
        )

    def action_tree(self) -> None:
        """Open the process tree of the chosen row."""
        if pids := self._pids():
            self._open("processes", lambda width: tree_rows(pids, self._look(width)))

    def action_environment(self) -> None:
        """Open the environment of the chosen row's process."""
        if pids := self._pids():
            self._open(
                f"environment of process {pids[0]}",
                lambda width: environment_rows(pids[0], self._look(width)),
            )

    def action_act(self, name: str) -> None:
        """Stop the marked rows, or else the chosen row, once the user agrees."""
        if self._options.readonly:
            return self._say("this screen is read-only")
        chosen = self._rows.chosen
        # A page shows one row, whatever is marked in the view below it.
        marked = () if self._page is not None else sorted(self._rows.marked)
        keys = marked or ([chosen.key] if chosen is not None else ())
        if not keys:
            return self._say("choose a run, a task or a process first")
        try:
            plan = plan_action(ACTIONS[name], keys, self._shown)
        except RequestError as error:
            return self._say(error.message)

        def answered(answer: bool | None) -> None:
            if answer:
                self._rows.unmark()
                self._say(plan.carry_out())

        self.push_screen(Question(self._look().clean(plan.question)), answered)
        return None

    @property
    def _shown(self) -> Snapshot:
        assert self._snapshot is not None
        return self._snapshot

    def _look(self, width: int | None = None) -> Look:
        room = self.size.width - GUTTER - 1 if width is None else width
        return Look(
            max(1, room),
            ascii_only=self._options.ascii_only,
            encoding=self._encoding,
            hidden=self._hidden.get(self._view, frozenset()),
            folds=not self._filter,
            idle_after_s=self._options.idle_after_s,
            past=lambda host, uuid: self._history.newest(host, uuid, 60),
        )

    @property
    def _page(self) -> Page | None:
        """The topmost page, also below a question; None if there is only a view."""
        return next((page for page in reversed(self.screen_stack) if isinstance(page, Page)), None)

    def _open(
        self, title: str, rows_for: Callable[[int], Sequence[Row]], *, ends_last: bool = False
    ) -> None:
        page = self._page
        if self._snapshot is None or (page is not None and page.title_text == title):
            return

        def left(_: None) -> None:
            # The screen below has not been redrawn meanwhile.
            self.call_later(self._draw)

        page = Page(title, rows_for, self._styles, self._frame, ends_last=ends_last)
        self.push_screen(page, left)

    def _leave_pages(self) -> bool:
        """Close all pages above the view; return False if a dialog is open."""
        if isinstance(self.screen, ModalScreen):
            return False
        while isinstance(self.screen, Page):
            self.screen.dismiss()
        return True

    def _frame(self, width: int) -> tuple[Line, Line]:
        """Return the text after a page's title, and the line below its rows."""
        look = self._look(width)
        line = (Span(look.clean(self._said), "warn"),) if self._said else None
        return (state_span(self._states()),), line or keys_line(look, of_page=True)

    def _say(self, text: str) -> None:
        self._said = text
        self._draw()

        def over() -> None:
            if self._said is text:
                self._said = ""
                self._draw()

        self.set_timer(_SAID_S, over)

    def _draw(self) -> None:
        """Redraw the page or the view in front."""
        if not self._footer.is_mounted:
            return
        page = self._page
        if page is not None:
            page.redraw()
            return
        look = self._look()
        words = [*self._states(), *([look.clean(f"/{self._filter}")] if self._filter else [])]
        self._tabs.show([tab_line(self._view, words, self.size.width)])
        line = (Span(look.clean(self._said), "warn"),) if self._said else keys_line(look)
        self._footer.show([line])
        if self._snapshot is None:
            waiting = self._problem or "reading the GPUs ..."
            self._rows.show([Row((), (Span(look.clean(waiting), "dim"),))])
            return
        view = VIEWS[self._view].shown(self._snapshot, look, self._filter)
        banner = banner_lines(self._snapshot, look, self.size.height, self._problem)
        self._head.show([head_line(self._snapshot, look), *banner])
        self._heading.show([view.heading] if view.heading else [])
        self._rows.show(view.rows)

    def _states(self) -> list[str]:
        states = (
            (self._is_paused, "PAUSED"),
            (self._has_ended, "the recording has ended"),
            (self._options.readonly, "read-only"),
        )
        return [word for is_so, word in states if is_so]

    def _chosen_work(self) -> Work | None:
        row = self._rows.chosen
        return None if row is None else work_of(row.key, self._shown)

    def _pids(self) -> Sequence[int]:
        """Return the pids of the chosen row; show a message if there are none."""
        row = self._rows.chosen
        try:
            return pids_of(() if row is None else row.key, self._shown, self._options.elsewhere)
        except RequestError as error:
            self._say(error.message)
            return ()

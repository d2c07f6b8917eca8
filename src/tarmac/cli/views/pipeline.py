"""Progress of a pipeline's run: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tarmac.cli.console import make_console
from tarmac.cli.failed_work import in_short, read_tails
from tarmac.cli.views.job_logs import Tail, last_lines
from tarmac.wording import counted, in_one_line

if TYPE_CHECKING:
    from tarmac.hkube import Ending, Work

_COLOURS = {"succeeded": "green", "failed": "red", "interrupted": "yellow"}

# Lines for one node's tasks: a batch of thousands is counted, not listed.
_MAX_LINES = 20

# More running tasks than this push the count off a usual screen.
_MAX_ROWS = 12

# Lines of a failed task's standard error, and the number of failures to explain.
_LAST_LINES = 10
_MAX_FAILURES = 5

# Seconds between two counts of tasks that are not listed.
_COUNT_EVERY_S = 5.0


@contextlib.contextmanager
def pipeline_progress(
    run: Path, *, follow: bool, quiet: bool, keeps_rows: bool
) -> Iterator[PipelineProgress]:
    """Yield the observer for a terminal or for other output.

    Args:
        run: Directory of the pipeline's run.
        follow: Whether to print the output of algorithms as it is written.
        quiet: Whether to suppress all progress output.
        keeps_rows: Whether to keep each task's end, for JSON.
    """
    console = make_console()
    if quiet or not console.is_terminal:
        progress = PipelineProgress(run, console, follow=follow, quiet=quiet, keeps_rows=keeps_rows)
        try:
            yield progress
        finally:
            progress.close()
        return
    live = _LiveProgress(run, console, follow=follow)
    with Live(get_renderable=live.render, console=console, transient=True, refresh_per_second=4):
        try:
            yield live
        finally:
            live.close()


@dataclasses.dataclass
class _Node:
    """The ended tasks of a node.

    Attributes:
        counts: Number of ended tasks by outcome.
        num_lines: Number of ended tasks, of which the first 20 are listed.
        is_told: Whether the counts were printed since they last changed.
    """

    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    num_lines: int = 0
    is_told: bool = True

    def count(self, outcome: str) -> None:
        self.counts[outcome] = self.counts.get(outcome, 0) + 1

    def __str__(self) -> str:
        return ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())


class PipelineProgress:
    """An observer with a line for each ended task, or with counts of many; see `Observer`.

    Attributes:
        rows: A mapping for each ended task, if they are kept.
    """

    def __init__(
        self, run: Path, console: Console, *, follow: bool, quiet: bool, keeps_rows: bool
    ) -> None:
        self._console = console
        self._follow = follow
        self._quiet = quiet
        self._keeps_rows = keeps_rows
        self._nodes: dict[str, _Node] = {}
        self._directories: dict[int, Path] = {}
        self._tails: dict[Path, list[Tail]] = {}
        # Output of earlier sessions of the run is not printed again.
        logs = [*run.glob("instances/*/std*"), *run.glob("tasks/*/std*")] if follow else []
        self._printed_before = {path: path.stat().st_size for path in logs}
        self._told = set[str]()
        self._num_failures = 0
        self._num_before = 0
        self._counted_at = time.monotonic()
        self.rows: list[dict[str, Any]] = []

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        """Show the start of an attempt."""
        self._directories[work.index] = directory
        if self._node(work).num_lines < _MAX_LINES:
            again = f", attempt {attempt}" if attempt > 1 else ""
            on = f" on {host}" if host else ""
            using = f", {', '.join(gpus)}" if gpus else ""
            self._say_started(f"  started    {work.name}{on} ({directory.name}{using}{again})")
        if self._follow and directory not in self._tails:
            self._tails[directory] = [
                self._tail(directory, stream) for stream in ("stdout", "stderr")
            ]

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Print nothing: only a live table shows progress."""

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Show that a task will be retried."""
        again = f"in {delay_s:g} s: " if delay_s else "again: "
        self._say(Text(f"  retrying   {work.name} {again}{reason}", style="yellow"))

    def waiting(self, work: Work, reason: str) -> None:
        """Show why a task cannot begin."""
        self._say(Text(f"  waiting    {work.name}: {reason}", style="yellow"))

    def ended(self, ending: Ending) -> None:
        """Show how a task ended."""
        work = ending.work
        outcome = "succeeded" if ending.succeeded else "failed"
        outcome = "interrupted" if ending.why == "stopped" else outcome
        directory = self._directories.pop(work.index, None)
        if directory is not None:
            self._read_tails(directory)
        if self._keeps_rows:
            self.rows.append(_row(ending, outcome, directory))
        node = self._node(work)
        node.count(outcome)
        node.is_told = node.num_lines < _MAX_LINES
        if outcome == "failed":
            self._num_failures += 1
            if self._num_failures <= _MAX_FAILURES:
                self._say_ended(ending, outcome)
                self._explain(ending, directory)
        elif node.num_lines < _MAX_LINES:
            self._say_ended(ending, outcome)
        node.num_lines += 1

    def repeated(self, name: str) -> None:
        """Count a task that ended in an earlier session."""
        del name
        self._num_before += 1

    def tried(self, name: str, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Show the result of a trial."""
        params_text = ", ".join(f"{key}={param}" for key, param in params.items())
        result = "no number" if value is None else f"{value:g}"
        self._say(f"  trial      {name} {number}: {result} ({params_text})")

    def waited(self) -> None:
        """Show the output that tasks have written meanwhile, and the counts of unlisted tasks."""
        if self._num_before:
            have = counted(self._num_before, "task has ended and is", "tasks have ended and are")
            self._say(f"  before     {have} not run again")
            self._num_before = 0
        # Idle instances of algorithms write little, and programs have an instance for each task.
        for directory in {*self._directories.values()}:
            self._read_tails(directory)
        if time.monotonic() - self._counted_at > _COUNT_EVERY_S:
            self._count()

    def close(self) -> None:
        """Show the remaining output and counts."""
        self.waited()
        for tails in self._tails.values():
            for tail in tails:
                tail.close()
        self._count()

    def _node(self, work: Work) -> _Node:
        return self._nodes.setdefault(f"{work.pipeline}/{work.node}", _Node())

    def _read_tails(self, directory: Path) -> None:
        for tail in self._tails.get(directory, ()):
            tail.read()

    def _tail(self, directory: Path, stream: str) -> Tail:
        def echo(line: str) -> None:
            self._say(f"             | {directory.name}: {line}")

        path = directory / stream
        return Tail(path, echo, skip_bytes=self._printed_before.get(path, 0))

    def _count(self) -> None:
        self._counted_at = time.monotonic()
        for place, node in self._nodes.items():
            if not node.is_told:
                node.is_told = True
                self._say(f"  {place.partition('/')[2]}: {node}")

    def _say_ended(self, ending: Ending, outcome: str) -> None:
        reason = f": {ending.message}" if ending.message else ""
        self._say(
            Text.assemble(
                (f"  {outcome:<10}", _COLOURS[outcome]),
                f" {ending.work.name} ({ending.seconds:.1f} s){reason}",
            )
        )

    def _explain(self, ending: Ending, directory: Path | None) -> None:
        if ending.details:
            for line in ending.details.splitlines()[-_LAST_LINES:]:
                self._say(f"             {line}")
        if directory is None or not directory.is_dir():
            return
        if not self._follow:
            for line in last_lines(directory / "stderr", _LAST_LINES):
                self._say(f"             | {line}")
        self._say(f"             logs: {in_one_line(str(directory))}")
        for finding in read_tails(directory / stream for stream in ("stderr", "stdout")):
            # Tasks of a batch fail alike: the fix is printed once.
            if finding.code not in self._told:
                self._told.add(finding.code)
                self._say(f"             {in_short(finding)}")

    def _say_started(self, words: str) -> None:
        self._say(words)

    def _say(self, words: str | Text) -> None:
        if not self._quiet:
            self._console.print(words, markup=False, soft_wrap=True)


class _LiveProgress(PipelineProgress):
    """A live table of the running tasks, below lines for the tasks that have ended."""

    def __init__(self, run: Path, console: Console, *, follow: bool) -> None:
        super().__init__(run, console, follow=follow, quiet=False, keeps_rows=False)
        self._running: dict[int, tuple[Work, Path, float]] = {}
        self._said: dict[int, str] = {}
        self._num_ended = 0

    def started(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str = ""
    ) -> None:
        super().started(work, attempt, directory, gpus, host)
        self._running[work.index] = (work, directory, time.monotonic())

    def progress(self, work: Work, value: float | None, details: str) -> None:
        done = "" if value is None else f"{value:.0%} "
        self._said[work.index] = f"{done}{details}".strip()

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        self._leave(work)
        super().retrying(work, reason, delay_s)

    def ended(self, ending: Ending) -> None:
        self._leave(ending.work)
        self._num_ended += 1
        super().ended(ending)

    def render(self) -> RenderableType:
        """Return the table as it is now; the thread that draws it calls this."""
        running = [*self._running.values()]
        table = Table("running", "took", "in", "progress", box=None, header_style="dim")
        for work, directory, since in running[:_MAX_ROWS]:
            last = last_lines(directory / "stdout", 1)
            line = self._said.get(work.index) or (last[-1] if last else "")
            table.add_row(
                Text(work.name),
                f"{time.monotonic() - since:.0f} s",
                directory.name,
                Text(line, style="dim", no_wrap=True, overflow="ellipsis"),
            )
        more = f", {len(running) - _MAX_ROWS} more run" if len(running) > _MAX_ROWS else ""
        bad = f", {self._num_failures} failed" if self._num_failures else ""
        counts = Text(f"{counted(self._num_ended, 'task')} done{bad}{more}")
        return Group(table, counts) if running else counts

    def _leave(self, work: Work) -> None:
        self._running.pop(work.index, None)
        self._said.pop(work.index, None)

    def _say_started(self, words: str) -> None:
        """Print nothing: the table shows the start."""


def _row(ending: Ending, outcome: str, directory: Path | None) -> dict[str, Any]:
    return {
        "name": ending.work.name,
        "outcome": outcome,
        "reason": ending.message,
        "exit_code": ending.exit_code,
        "seconds": ending.seconds,
        "attempts": ending.attempts,
        "directory": None if directory is None else str(directory),
    }

"""How a job's run is shown: a live table on a terminal, a line per start and end elsewhere."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tarmac.cli.console import make_console
from tarmac.cli.failed_work import in_short, read_tails
from tarmac.cli.views.job_logs import Tail
from tarmac.jobs import task_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import Console, RenderableType

    from tarmac.jobs import Ended, Grant, JobRun, Task

__all__ = ["JobProgress", "progress_of"]

_COLOURS = {"succeeded": "green", "failed": "red", "skipped": "yellow", "interrupted": "yellow"}

# More running tasks than this push the count off a usual screen.
_MOST_ROWS = 12

# Of a failed task's standard error.
_LAST_LINES = 10

_TAIL_BYTES = 4096

# Of a task, in its directory; errors are in the first as a rule.
_LOGS = ("stderr", "stdout")


@contextlib.contextmanager
def progress_of(run: JobRun, *, follow: bool, quiet: bool) -> Iterator[JobProgress]:
    """Give the reporter that suits where the output goes.

    Args:
        run: What is watched.
        follow: Print what tasks print, as they print it.
        quiet: Print nothing.
    """
    console = make_console()
    if quiet or not console.is_terminal:
        yield JobProgress(run, console, follow=follow, quiet=quiet)
        return
    progress = _LiveProgress(run, console, follow=follow)
    with Live(
        get_renderable=progress.render, console=console, transient=True, refresh_per_second=4
    ):
        yield progress


class JobProgress:
    """A line when a task begins, and one when it ends.

    Attributes:
        rows: A mapping for each task that has ended, for JSON.
    """

    def __init__(self, run: JobRun, console: Console, *, follow: bool, quiet: bool) -> None:
        self._run = run
        self._console = console
        self._follow = follow
        self._quiet = quiet
        self._tails: dict[int, list[Tail]] = {}
        # What earlier sessions of the run have printed is not printed again.
        logs = (run.path / "tasks").glob("*/std*") if follow else ()
        self._printed_before = {path: path.stat().st_size for path in logs}
        self._told = set[str]()
        self.rows: list[dict[str, Any]] = []

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """Show the start of an attempt."""
        again = f", attempt {attempt}" if attempt > 1 else ""
        gpus = f", {', '.join(grant.gpus)}" if grant.gpus else ""
        self._say_started(f"  started    {task.name} ({grant.cpus:g} CPUs{gpus}{again})")
        if self._follow and task.index not in self._tails:
            directory = task_directory(self._run.path, task)
            name = f"{task.name}: " if len(self._run.tasks) > 1 else ""

            def echo(line: str) -> None:
                self._say(f"             | {name}{line}")

            self._tails[task.index] = [
                Tail(path, echo, skip_bytes=self._printed_before.get(path, 0))
                for path in (directory / "stdout", directory / "stderr")
            ]

    def waited(self) -> None:
        """Show what has been printed meanwhile."""
        for tails in self._tails.values():
            for tail in tails:
                tail.read()

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """Show that another attempt follows."""
        self._say(Text(f"  retrying   {task.name} in {delay_s:g} s: {reason}", style="yellow"))

    def ended(self, ended: Ended) -> None:
        """Show how a task ended."""
        directory = task_directory(self._run.path, ended.task)
        has_failed = ended.outcome == "failed"
        findings = read_tails(directory / name for name in _LOGS) if has_failed else []
        self.rows.append(
            {
                "name": ended.task.name,
                "outcome": ended.outcome,
                "reason": ended.reason,
                "exit_code": ended.exit_code,
                "seconds": ended.seconds,
                "attempts": ended.attempts,
                "problems": [*ended.problems],
                "findings": [finding.model_dump(mode="json") for finding in findings],
                "directory": str(directory),
            }
        )
        for tail in self._tails.pop(ended.task.index, ()):
            tail.close()
        reason = f": {ended.reason}" if ended.reason else ""
        self._say(
            Text.assemble(
                (f"  {ended.outcome:<10}", _COLOURS[ended.outcome]),
                f" {ended.task.name} ({ended.seconds:.1f} s){reason}",
            )
        )
        for problem in ended.problems:
            self._say(f"             {problem}")
        if has_failed and (directory / "stderr").exists():
            if not self._follow:
                for line in _last_lines(directory / "stderr", _LAST_LINES):
                    self._say(f"             | {line}")
            self._say(f"             logs: {directory}")
        for finding in findings:
            # Tasks of a sweep fail alike; what to do is said once.
            is_told = finding.code in self._told
            words = f"known failure, as above: [{finding.code}]" if is_told else in_short(finding)
            self._say(f"             {words}")
            self._told.add(finding.code)

    def _say_started(self, words: str) -> None:
        self._say(words)

    def _say(self, words: str | Text) -> None:
        if not self._quiet:
            self._console.print(words, markup=False, soft_wrap=True)


class _LiveProgress(JobProgress):
    """A table of the running tasks that changes in place, above it a line for each end."""

    def __init__(self, run: JobRun, console: Console, *, follow: bool) -> None:
        super().__init__(run, console, follow=follow, quiet=False)
        self._running: dict[int, tuple[Task, Grant, float]] = {}

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        super().started(task, attempt, grant)
        self._running[task.index] = (task, grant, time.monotonic())

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        self._running.pop(task.index, None)
        super().retrying(task, reason, delay_s)

    def ended(self, ended: Ended) -> None:
        self._running.pop(ended.task.index, None)
        super().ended(ended)

    def _say_started(self, words: str) -> None:
        """Say nothing: the table shows it."""

    def render(self) -> RenderableType:
        """Return the table as it is now; called by the thread that draws it."""
        running = [*self._running.values()]
        table = Table("running", "took", "CPUs", "GPUs", "last line", box=None, header_style="dim")
        for task, grant, since in running[:_MOST_ROWS]:
            directory = task_directory(self._run.path, task)
            last = _last_lines(directory / "stdout", 1) if directory.exists() else []
            table.add_row(
                Text(task.name),
                f"{time.monotonic() - since:.0f} s",
                f"{grant.cpus:g}",
                ", ".join(grant.gpus),
                Text(last[-1] if last else "", style="dim", no_wrap=True, overflow="ellipsis"),
            )
        failed = sum(row["outcome"] == "failed" for row in self.rows)
        more = f", {len(running) - _MOST_ROWS} more run" if len(running) > _MOST_ROWS else ""
        bad = f", {failed} failed" if failed else ""
        counts = Text(f"{len(self.rows)} of {len(self._run.tasks)} tasks done{bad}{more}")
        return Group(table, counts) if running else counts


def _last_lines(path: Path, count: int) -> list[str]:
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return text.splitlines()[-count:]

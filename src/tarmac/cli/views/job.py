"""Progress of a job's run: a live table on a terminal, a line per start and end elsewhere."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tarmac.cli.console import make_console
from tarmac.cli.failed_work import in_short, read_tails
from tarmac.cli.views.job_logs import Tail, failure_lines, last_lines
from tarmac.cli.views.short_tasks import ShortTasks
from tarmac.jobs import Began, Queued, Requeued, Waiting, task_directory
from tarmac.wording import counted, in_one_line

if TYPE_CHECKING:
    from tarmac.jobs import Ended, Grant, JobRun, Task

_COLOURS = {"succeeded": "green", "failed": "red", "skipped": "yellow", "interrupted": "yellow"}

# More running tasks than this push the count off a usual screen.
_MAX_ROWS = 12

# Lines of a failed task's standard error to show.
_LAST_LINES = 10

# Most reasons to show for waiting tasks; more of them add nothing.
_MAX_REASONS = 3

# Logs in a task's directory; errors are mostly in the first.
_LOGS = ("stderr", "stdout")


@contextlib.contextmanager
def progress_of(run: JobRun, *, follow: bool, quiet: bool) -> Iterator[JobProgress]:
    """Yield the reporter for a terminal or for other output.

    Args:
        run: Run of the job to watch.
        follow: Whether to print the output of tasks as it is written.
        quiet: Whether to suppress all progress output.
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


class _Queue:
    """Tasks that wait with an engine, counted by reason."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}
        self._counts: Counter[str] = Counter()

    def put(self, index: int, reason: str) -> None:
        """Add a waiting task with its reason; empty while that is unknown."""
        self.take(index)
        self._reasons[index] = reason
        self._counts[reason] += 1

    def take(self, index: int) -> None:
        """Remove a task, if it waits."""
        reason = self._reasons.pop(index, None)
        if reason is not None:
            self._counts[reason] -= 1
            if not self._counts[reason]:
                del self._counts[reason]

    def __str__(self) -> str:
        """Return the number of waiting tasks and their reasons; empty without any."""
        if not self._reasons:
            return ""
        counts = Counter({reason: n for reason, n in self._counts.copy().items() if reason})
        parts = [f"{n} {reason}" for reason, n in counts.most_common(_MAX_REASONS)]
        return f"{len(self._reasons)} queued" + (f": {'; '.join(parts)}" if parts else "")


class JobProgress:
    """A reporter with a line when a task begins, and a line when it ends.

    An engine queues many tasks at a time: they share a line.

    Attributes:
        rows: A mapping for each task that has ended, for JSON.
    """

    def __init__(self, run: JobRun, console: Console, *, follow: bool, quiet: bool) -> None:
        self._run = run
        self._console = console
        self._follow = follow
        self._quiet = quiet
        self._tails: dict[int, list[Tail]] = {}
        # Output of earlier sessions of the run is not printed again.
        logs = (run.path / "tasks").glob("*/std*") if follow else ()
        self._printed_before = {path: path.stat().st_size for path in logs}
        self._told = set[str]()
        self._hosts: dict[int, str] = {}
        self._queued: list[Queued] = []
        self._waiting: dict[str, list[str]] = {}
        self._short = ShortTasks(len(run.tasks)) if run.executor == "slurm" else None
        self.rows: list[dict[str, Any]] = []

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """Show the start of an attempt."""
        again = f", attempt {attempt}" if attempt > 1 else ""
        gpus = f", {', '.join(grant.gpus)}" if grant.gpus else ""
        host = self._hosts.get(task.index, "")
        where = f" on {host}" if host else ""
        self._say_queued()
        self._say_started(
            f"  started    {task.name} ({counted(grant.cpus, 'CPU')}{gpus}{again}){where}"
        )
        if self._follow and task.index not in self._tails:
            directory = task_directory(self._run.path, task)
            name = f"{task.name}: " if len(self._run.tasks) > 1 else ""

            def echo(line: str) -> None:
                self._say(f"             | {name}{line}")

            self._tails[task.index] = [
                Tail(path, echo, skip_bytes=self._printed_before.get(path, 0))
                for path in (directory / "stdout", directory / "stderr")
            ]

    def told(self, event: Queued | Waiting | Began | Requeued) -> None:
        """Show an engine's event about an attempt."""
        task = event.attempt.task
        match event:
            case Queued():
                self._queued.append(event)
            case Waiting(reason=reason) if reason:
                self._waiting.setdefault(reason, []).append(task.name)
            case Began(host=host):
                self._hosts[task.index] = host
            case Requeued(reason=reason):
                self._say(Text(f"  requeued   {task.name}: {reason}", style="yellow"))

    def waited(self) -> None:
        """Show the output that tasks have written meanwhile."""
        self._say_queued()
        for tails in self._tails.values():
            for tail in tails:
                tail.read()

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """Show that a task will be retried."""
        self._say(Text(f"  retrying   {task.name} in {delay_s:g} s: {reason}", style="yellow"))

    def ended(self, ended: Ended) -> None:
        """Show how a task ended."""
        self._say_queued()
        directory = task_directory(self._run.path, ended.task)
        has_failed = ended.outcome == "failed"
        findings = read_tails(directory / name for name in _LOGS) if has_failed else []
        self.rows.append(
            {
                "name": ended.task.name,
                "outcome": ended.outcome,
                "reason": ended.reason,
                "exit_code": ended.exit_code,
                "cause": ended.cause,
                "host": ended.host,
                "seconds": ended.seconds,
                "attempts": ended.attempts,
                "problems": [*ended.problems],
                "notes": [*ended.notes],
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
        for line in (*ended.problems, *ended.notes):
            if line not in ended.reason:
                self._say(f"             {line}")
        if has_failed and os.path.exists(directory / "stderr"):  # noqa: PTH110 - False where forbidden
            if not self._follow:
                for line in failure_lines(directory / "stderr", _LAST_LINES):
                    self._say(f"             | {line}")
            self._say(f"             logs: {in_one_line(str(directory))}")
        if self._short is not None and (hint := self._short.note(ended)):
            self._say(Text(f"  hint       {hint}", style="yellow"))
        for finding in findings:
            # Tasks of a sweep fail alike: the fix is printed once.
            is_told = finding.code in self._told
            words = f"known failure, as above: [{finding.code}]" if is_told else in_short(finding)
            self._say(f"             {words}")
            self._told.add(finding.code)

    def _say_queued(self) -> None:
        """Show tasks that were queued or wait since the last call, in as few lines as possible."""
        if self._queued:
            place = self._queued[0].place
            where = f" ({place})" if place and len(self._queued) == 1 else ""
            names = [event.attempt.task.name for event in self._queued]
            self._say_started(f"  queued     {_how_many(names)}{where}")
            self._queued.clear()
        for reason, names in self._waiting.items():
            self._say_started(f"  waiting    {_how_many(names)}: {reason}")
        self._waiting.clear()

    def _say_started(self, words: str) -> None:
        self._say(words)

    def _say(self, words: str | Text) -> None:
        if not self._quiet:
            self._console.print(words, markup=False, soft_wrap=True)


class _LiveProgress(JobProgress):
    """A live table of the running tasks, below a line for each task that has ended."""

    def __init__(self, run: JobRun, console: Console, *, follow: bool) -> None:
        super().__init__(run, console, follow=follow, quiet=False)
        self._running: dict[int, tuple[Task, Grant, float]] = {}
        self._queue = _Queue()

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        super().started(task, attempt, grant)
        self._running[task.index] = (task, grant, time.monotonic())
        self._queue.take(task.index)

    def told(self, event: Queued | Waiting | Began | Requeued) -> None:
        super().told(event)
        index = event.attempt.task.index
        match event:
            case Queued():
                self._queue.put(index, "")
            case Waiting(reason=reason) if not event.is_at_work:
                self._queue.put(index, reason)
            case Requeued(reason=reason):
                self._running.pop(index, None)
                self._queue.put(index, reason)

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        self._running.pop(task.index, None)
        self._queue.take(task.index)
        super().retrying(task, reason, delay_s)

    def ended(self, ended: Ended) -> None:
        self._running.pop(ended.task.index, None)
        self._queue.take(ended.task.index)
        super().ended(ended)

    def _say_started(self, words: str) -> None:
        """Print nothing: the table shows the start."""

    def render(self) -> RenderableType:
        """Return the table as it is now; the thread that draws it calls this."""
        running = [*self._running.values()]
        table = Table("running", "took", "CPUs", "GPUs", "last line", box=None, header_style="dim")
        for task, grant, since in running[:_MAX_ROWS]:
            directory = task_directory(self._run.path, task)
            last = last_lines(directory / "stdout", 1) if os.access(directory, os.X_OK) else []
            table.add_row(
                Text(
                    f"{task.name} on {host}" if (host := self._hosts.get(task.index)) else task.name
                ),
                f"{time.monotonic() - since:.0f} s",
                f"{grant.cpus:g}",
                ", ".join(grant.gpus),
                Text(last[-1] if last else "", style="dim", no_wrap=True, overflow="ellipsis"),
            )
        failed = sum(row["outcome"] == "failed" for row in self.rows)
        more = f", {len(running) - _MAX_ROWS} more run" if len(running) > _MAX_ROWS else ""
        bad = f", {failed} failed" if failed else ""
        waits = f", {queue}" if (queue := str(self._queue)) else ""
        counts = Text(
            f"{len(self.rows)} of {counted(len(self._run.tasks), 'task')} done{bad}{more}{waits}"
        )
        return Group(table, counts) if running else counts


def _how_many(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else counted(len(names), "task")

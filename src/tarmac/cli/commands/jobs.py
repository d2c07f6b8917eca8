"""``tarmac ps``, ``tarmac logs`` and ``tarmac cancel``: list, follow and end jobs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup
from click.shell_completion import CompletionItem

from tarmac.cli.completion import complete_jobs
from tarmac.cli.options import examples, json_option, option, output_option
from tarmac.errors import RequestError, TarmacError, quoted, unknown_name
from tarmac.wording import counted, in_one_line

if TYPE_CHECKING:
    from tarmac.jobs import Handle, RunStatus, TaskStatus

_COLOURS = {"running": "cyan", "succeeded": "green", "failed": "red"}

_LOOK_EVERY_S = 0.2

# A runner on another machine sends a heartbeat every ten seconds; clocks may differ by some.
_SILENT_S = 60.0

# Most reasons to show for waiting tasks.
_MAX_REASONS = 3

_run = cloup.argument(
    "run",
    metavar="RUN",
    shell_complete=complete_jobs,
    help='Its directory, its name, the beginning of its name, or "latest".',
)


@cloup.command("ps", epilog=examples("tarmac ps", "tarmac ps latest", "tarmac ps --all --json"))
@cloup.argument(
    "run",
    metavar="[RUN]",
    required=False,
    shell_complete=complete_jobs,
    help='Show the tasks of this run: its directory, name, the beginning of its name, or "latest".',
)
@option("--all", "-a", "everything", is_flag=True, help="Show ended jobs too.")
@output_option()
@json_option("Print JSON, with every task, and only that.")
def ps(run: str | None, everything: bool, output: Path | None, as_json: bool) -> None:
    """List the active jobs, the newest first, or the tasks of one job."""
    if run is not None:
        from tarmac.cli.views.runs import print_job
        from tarmac.jobs import attach

        print_job(attach(run, output).path, as_json=as_json)
        return
    from rich.table import Table
    from rich.text import Text

    from tarmac.cli.console import make_console
    from tarmac.cli.views.run_list import age_of
    from tarmac.cli.views.runs import job_row
    from tarmac.jobs import list_statuses
    from tarmac.runs import default_output

    statuses, broken = list_statuses(output)
    listed = [status for status in statuses if everything or status.is_active or status.runner_note]
    for broken_run in broken:
        words = f"cannot be read: {broken_run.path}: {broken_run.reason}"
        click.echo(in_one_line(words), err=True)
    for problem in (problem for status in listed for problem in status.problems):
        click.echo(in_one_line(f"left out: {problem}"), err=True)
    if as_json:
        click.echo(json.dumps([job_row(status) for status in listed], indent=2))
        return
    queued = ["queued"] if any(status.count("queued") for status in listed) else []
    table = Table("run", "state", "tasks", *queued, "running", "failed", "began", box=None)
    for status in listed:
        where = f" on {status.elsewhere.host}" if status.elsewhere is not None else ""
        if status.silent_s is not None and status.silent_s > _SILENT_S:
            where += f", last heartbeat {status.silent_s:.0f} s ago"
        table.add_row(
            Text(status.name),
            Text(f"{status.state}{where}", style=_COLOURS.get(status.state, "yellow")),
            f"{status.count('succeeded')}/{status.num_tasks}",
            *(str(status.count("queued")) for _ in queued),
            str(status.count("running")),
            str(status.count("failed")),
            age_of(status.created_at),
        )
    if listed:
        make_console().print(table)
        for status in listed:
            for line in (*_kept_waiting(status), *_of_runner(status)):
                click.echo(line)
    else:
        kind = "there are no jobs" if everything else "no job is active"
        click.echo(f"{kind} in {output or default_output()}")


def _of_runner(run: RunStatus) -> Iterator[str]:
    """Yield the note on a runner that is a job and does not run, and the commands to continue."""
    if not run.runner_note:
        return
    yield in_one_line(f"{run.name}: the runner's {run.runner_note}")
    if run.state in ("detached", "interrupted"):
        yield f"  Resume it: tarmac run --resume {quoted(run.path)}"
        yield f"  Cancel it: tarmac cancel {quoted(run.path)}"


def _kept_waiting(run: RunStatus) -> Iterator[str]:
    """Yield the reasons why a run's tasks wait, the most frequent first."""
    reasons = Counter(
        task.reason for task in run.tasks if task.state in ("queued", "running") and task.reason
    )
    for reason, count in reasons.most_common(_MAX_REASONS):
        yield f"{run.name}: {counted(count, 'task')}: {reason}"


def _complete_tasks(
    ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from tarmac.jobs import attach

    try:
        status = attach(ctx.params["run"], ctx.params.get("output")).status()
    except TarmacError:
        # A shell that completes an unfinished line must not show its errors.
        return []
    return [CompletionItem(task.name) for task in status.tasks if task.name.startswith(incomplete)]


@cloup.command(
    "logs",
    epilog=examples(
        "tarmac logs latest --follow",
        "tarmac logs latest --tail 20",
        "tarmac logs latest evaluate --stderr",
    ),
)
@_run
@cloup.argument(
    "task", required=False, shell_complete=_complete_tasks, help="Task of the job. Default: all."
)
@option("--follow", "-f", is_flag=True, help="Keep printing until the job ends.")
@option(
    "--tail",
    type=click.IntRange(min=0),
    metavar="LINES",
    help="Print only the last lines of each stream of each task. Default: all.",
)
@option("--stderr", "only_stderr", is_flag=True, help="Print only standard error.")
@output_option()
def logs(
    run: str,
    task: str | None,
    *,
    follow: bool,
    tail: int | None,
    only_stderr: bool,
    output: Path | None,
) -> None:
    """Print the logs of a job's tasks."""
    from tarmac.jobs import attach

    _print_logs(attach(run, output), task, follow=follow, num_lines=tail, only_stderr=only_stderr)


def _print_logs(
    handle: Handle, task: str | None, *, follow: bool, num_lines: int | None, only_stderr: bool
) -> None:
    from tarmac.cli.views.job_logs import Tail, tail_offset

    def tail_of(path: Path, emit: Callable[[str], None], *, is_new: bool) -> Tail:
        # A log that appears later is printed from its start.
        skipped = 0 if num_lines is None or is_new else tail_offset(path, num_lines)
        _say_unreadable(path, handle.path)
        return Tail(path, emit, skip_bytes=skipped, within=handle.path)

    streams = ("stderr",) if only_stderr else ("stdout", "stderr")
    tails: dict[Path, list[Tail]] = {}
    shown_problems: set[str] = set()
    has_printed = False
    while True:
        status = handle.status()
        for problem in status.problems:
            if problem not in shown_problems:
                shown_problems.add(problem)
                click.echo(in_one_line(f"left out: {problem}"), err=True)
        chosen = _chosen(status, task, may_come=follow and status.is_active)
        for task_status in chosen:
            # Tasks of a pipeline that ran in the same instance of an algorithm share its directory.
            if task_status.directory not in tails:
                emit = _printer(task_status, is_alone=status.num_tasks == 1 or task is not None)
                tails[task_status.directory] = [
                    tail_of(task_status.directory / stream, emit, is_new=has_printed)
                    for stream in streams
                ]
        for directory in dict.fromkeys(task_status.directory for task_status in chosen):
            for tail in tails[directory]:
                tail.read()
        has_printed = True
        if not follow or not status.is_active:
            break
        time.sleep(_LOOK_EVERY_S)
    for pair in tails.values():
        for tail in pair:
            tail.close()


def _say_unreadable(log: Path, run: Path) -> None:
    """Report why an existing log cannot be printed."""
    from tarmac.files import open_regular

    try:
        with open_regular(log, within=run):
            pass
    except FileNotFoundError:
        pass
    except OSError as error:
        click.echo(in_one_line(f"left out: cannot read {log}: {error.strerror}"), err=True)


def _chosen(status: RunStatus, name: str | None, *, may_come: bool) -> Sequence[TaskStatus]:
    if name is None:
        return status.tasks
    chosen = [task for task in status.tasks if task.name == name]
    if not chosen and not may_come:
        raise unknown_name("task", name, {task.name: task.state for task in status.tasks})
    return chosen


def _printer(task: TaskStatus, *, is_alone: bool) -> Callable[[str], None]:
    name = task.directory.name if task.is_shared else task.name
    prefix = "" if is_alone else click.style(f"{name} | ", dim=True)
    return lambda line: click.echo(prefix + line)


@cloup.command("cancel", epilog=examples("tarmac cancel latest"))
@_run
@option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="How long to wait for the job to end.",
)
@output_option()
def cancel(run: str, timeout: float, output: Path | None) -> None:
    """Cancel a job.

    Its tasks receive SIGTERM, and SIGKILL ten seconds later.
    """
    from concurrent.futures import CancelledError

    from tarmac.jobs import attach

    handle = attach(run, output)
    if not handle.cancel():
        raise RequestError(f"{handle.path.name} is not active", hint="tarmac ps --all")
    try:
        handle.exception(timeout)
    except CancelledError:
        pass
    except TimeoutError as error:
        elsewhere = handle.status().elsewhere
        gone = f"\nIf {elsewhere.host} is gone, cancel it again." if elsewhere is not None else ""
        raise TarmacError(
            f"{handle.path.name} has not ended within {timeout:g} s of the request",
            hint=f"tarmac ps{gone}",
        ) from error
    click.echo(
        f"ended {in_one_line(handle.path.name)}; resume it: tarmac run --resume "
        f"{quoted(handle.path)}"
    )

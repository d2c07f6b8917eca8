"""Output about runs of all kinds: one run, or several side by side."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from tarmac.cli.console import make_console
from tarmac.cli.views.scores import scores_text
from tarmac.files import open_regular
from tarmac.runs import name_words
from tarmac.wording import counted, in_one_line, number_text

if TYPE_CHECKING:
    from tarmac.jobs import RunStatus
    from tarmac.runs import Comparison, JudgedBy, RunRecord

_BARS = "▁▂▃▄▅▆▇█"

# A wider sparkline shows no more.
_MAX_BARS = 30

_MAX_LINE_BYTES = 2**20


def print_training(path: Path, *, as_json: bool) -> None:
    """Print a training's settings, machine and results."""
    from tarmac.runs import Run

    run = Run.open(path)
    record = run.record.model_dump(mode="json")
    if as_json:
        click.echo(json.dumps(record | {"status": run.status, "history": run.history}, indent=2))
        return
    console = make_console()
    console.print(f"[bold]{escape(in_one_line(run.name))}[/bold]  {run.status}", markup=True)
    if record["error"]:
        console.print(record["error"], markup=False)
    if record["expectation"]:
        console.print(str(record["expectation"].get("text", "")), markup=False)
    for part in ("configuration", "dataset", "device", "versions", "git", "metrics"):
        if record[part]:
            console.print(f"[bold]{part}[/bold]")
            width = max(map(len, record[part]))
            for key, value in record[part].items():
                console.print(f"  {key:<{width}}  {_short(value)}", markup=False)
    for line in _measured(run.record):
        console.print(line, markup=False)
    parallel = run.record.parallel
    if parallel is not None and parallel.replicas:
        console.print("[bold]replicas[/bold]")
        for replica in parallel.replicas:
            console.print(
                f"  {replica.rank:>4}  {replica.device.get('name', '-')} on {replica.host}  "
                f"{number_text(replica.samples_per_s, digits=0)} samples/s, "
                f"waited {number_text(replica.waiting_s, digits=1)} s",
                markup=False,
            )
    history = run.history
    if history:
        console.print("[bold]epochs[/bold]")
        for row in history:
            shown = _epoch(row, run.record.judged_by)
            console.print(f"  {int(row['epoch']):>4}  {shown}", markup=False)
    console.print(in_one_line(f"in {run.path}"), markup=False)


def job_row(status: RunStatus) -> dict[str, object]:
    """Return a job run's state for JSON, with every task that has begun."""
    return {
        "name": status.name,
        "path": str(status.path),
        "state": status.state,
        "created_at": status.created_at.isoformat(),
        "num_tasks": status.num_tasks,
        "problems": [*status.problems],
        "runner_pid": status.runner.pid if status.runner is not None else None,
        "runner_host": status.elsewhere.host if status.elsewhere is not None else None,
        "runner_silent_s": status.silent_s,
        "runner_note": status.runner_note or None,
        "tasks": [
            {
                "name": task.name,
                "state": task.state,
                "attempt": task.attempt,
                "exit_code": task.exit_code,
                "seconds": task.seconds,
                "reason": task.reason,
                "host": task.host,
                "directory": str(task.directory),
            }
            for task in status.tasks
        ],
    }


def print_job(path: Path, *, as_json: bool) -> None:
    """Print the states of a job's tasks."""
    from rich.table import Table
    from rich.text import Text

    from tarmac.jobs import read_status

    status = read_status(path)
    if as_json:
        click.echo(json.dumps(job_row(status), indent=2))
        return
    console = make_console()
    console.print(f"[bold]{escape(in_one_line(status.name))}[/bold]  {status.state}", markup=True)
    for problem in status.problems:
        console.print(in_one_line(f"left out: {problem}"), markup=False)
    table = Table("task", "state", "attempt", "took", "why", box=None)
    for task in status.tasks:
        took = f"{task.seconds:.1f} s" if task.seconds or task.state == "succeeded" else ""
        state = f"{task.state} on {task.host}" if task.host else task.state
        table.add_row(Text(task.name), Text(state), str(task.attempt), took, Text(task.reason))
    console.print(table)
    waiting = status.num_tasks - len(status.tasks)
    if waiting:
        console.print(f"{counted(waiting, 'task has', 'tasks have')} not begun", markup=False)
    console.print(in_one_line(f"in {path}"), markup=False)


def print_logs(logs: Sequence[Path], root: Path) -> None:
    """Print log files, each under its name, without empty files.

    Args:
        logs: Log files of the processes, in the order of output. All lie under ``root``.
        root: The run's directory. Files that links lead to outside of it are left out.
    """
    num_shown = 0
    for log in logs:
        with contextlib.ExitStack() as opened:
            try:
                file = opened.enter_context(open_regular(log, within=root))
            except OSError as error:
                click.echo(in_one_line(f"left out: cannot read {log}: {error.strerror}"), err=True)
                continue
            if not os.fstat(file.fileno()).st_size:
                continue
            name = in_one_line(str(log.relative_to(root)))
            click.echo(f"{chr(10) if num_shown else ''}==> {name} <==")
            num_shown += 1
            # In pieces, because a hole in a file is a line of any length.
            while line := file.readline(_MAX_LINE_BYTES):
                click.echo(line.decode(errors="replace").rstrip("\n"))


def print_comparison(comparison: Comparison) -> None:
    """Print runs side by side."""
    from rich.table import Table
    from rich.text import Text

    table = Table("", *map(escape, comparison.names), box=None)
    for key, values in comparison.differences.items():
        table.add_row(Text(key), *(Text(_short(value)) for value in values))
    if not comparison.differences:
        table.add_row("nothing differed", *([""] * len(comparison.names)))
    table.add_section()
    has_best = False
    for key, numbers in comparison.metrics.items():
        best = comparison.best(key)
        has_best = has_best or bool(best)
        cells = (
            "" if v is None else f"{number_text(v)}{' *' * (place in best)}"
            for place, v in enumerate(numbers)
        )
        table.add_row(Text(key), *cells)
    if any(comparison.curves):
        table.add_row(_curve_name(comparison), *map(_sparkline, comparison.curves))
    console = make_console()
    console.print(table)
    if has_best:
        console.print("* the best of its row", markup=False)


def _curve_name(comparison: Comparison) -> str:
    names = {judged.metric for judged in comparison.judged_by if judged is not None}
    return f"{name_words(names.pop()) if len(names) == 1 else 'judged'} by epoch"


def _measured(record: RunRecord) -> Iterator[str]:
    """Yield the measurements of a run, as far as they are known, and its places at trackers."""
    if record.energy_joules is not None:
        joules, hours = record.energy_joules, record.energy_joules / 3600
        yield f"energy     {number_text(joules, digits=0)} J ({number_text(hours, digits=2)} Wh)"
    if record.mfu is not None:
        yield f"MFU        {record.mfu:.1%}"
    for reason, seconds in (record.throttled_s or {}).items():
        if seconds:
            yield f"throttled  {number_text(seconds, digits=1)} s: {reason}"
    for name, place in record.tracked.items():
        yield f"tracked    {name}: {place}"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "none"
    return "" if value is None else str(value)


def _epoch(row: dict[str, float], judged: JudgedBy) -> str:
    shown = scores_text(row, judged.scores)
    # A row lacks the values that its writer did not know.
    shown += (
        [f"{number_text(row['samples_per_s'], digits=0)} samples/s"]
        if "samples_per_s" in row
        else []
    )
    shown += [f"{row['seconds']:.2f} s"] if "seconds" in row else []
    return "  ".join(shown)


def _sparkline(values: Sequence[float]) -> str:
    """Return a sparkline between the lowest and the highest value."""
    if not values:
        return ""
    step = max(1, -(-len(values) // _MAX_BARS))
    shown = [value for value in values[::step] if math.isfinite(value)] or [0.0]
    low, high = min(shown), max(shown)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    drawn = "".join(_BARS[round((value - low) * scale)] for value in shown)
    return f"{drawn} {number_text(values[0], digits=3)} to {number_text(values[-1], digits=3)}"

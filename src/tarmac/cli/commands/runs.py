"""``tarmac runs``: list, show, compare and remove runs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.completion import complete_trainings
from tarmac.cli.options import Group, examples, json_option, option, output_option
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tarmac.runs import Run

__all__ = ["command"]

_RUN = 'Its directory, its name, the beginning of its name or id, or "latest".'


@click.group(
    "runs",
    cls=Group,
    epilog=examples(
        "tarmac runs list",
        "tarmac runs show latest",
        "tarmac runs compare mnist-mlp-a mnist-mlp-b",
        "tarmac runs rm latest",
    ),
)
def command() -> None:
    """List, show, compare and remove runs."""


def _common(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every command here has."""
    return output_option()(json_option()(function))  # type: ignore[no-any-return]


@command.command("list", epilog=examples("tarmac runs list --json"))
@_common
def list_all(output: Path | None, as_json: bool) -> None:
    """List the runs, the newest first."""
    from rich.table import Table

    from tarmac import runs
    from tarmac.cli.console import make_console

    found, broken = runs.list_runs(output)
    if as_json:
        rows = [
            {
                "name": run.name,
                "path": str(run.path),
                "workload": run.record.workload,
                "status": run.status,
                "created_at": run.record.created_at.isoformat(),
                "elapsed_s": run.record.elapsed_s,
                "metrics": dict(run.metrics),
            }
            for run in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("run", "status", "accuracy", "expected", "took", "device", box=None)
    for run in found:
        accuracy = run.metrics.get("test_accuracy")
        met = (run.record.expectation or {}).get("met")
        table.add_row(
            run.name,
            run.status,
            "" if accuracy is None else f"{accuracy:.4f}",
            "" if met is None else "yes" if met else "no",
            f"{run.record.elapsed_s:.1f} s",
            _devices(run),
        )
    make_console().print(table)
    for run_path in broken:
        click.echo(f"{run_path.path.name} cannot be read: {run_path.reason}")
    if not found:
        click.echo(f"there are none in {output or runs.default_output()}")


@command.command(epilog=examples("tarmac runs show latest"))
@cloup.argument("run", metavar="RUN", shell_complete=complete_trainings, help=_RUN)
@_common
def show(run: str, output: Path | None, as_json: bool) -> None:
    """Show what a run was asked, where it ran and how it went."""
    from tarmac import runs
    from tarmac.cli.console import make_console

    found = runs.resolve(run, output)
    record = found.record.model_dump(mode="json")
    if as_json:
        click.echo(
            json.dumps(record | {"status": found.status, "history": found.history}, indent=2)
        )
        return
    console = make_console()
    console.print(f"[bold]{found.name}[/bold]  {found.status}", markup=True)
    if record["error"]:
        console.print(record["error"], markup=False)
    if record["expectation"]:
        console.print(str(record["expectation"]["text"]), markup=False)
    for part in ("configuration", "dataset", "device", "versions", "git", "metrics"):
        if record[part]:
            console.print(f"[bold]{part}[/bold]")
            for key, value in record[part].items():
                console.print(f"  {key:<18}{_short(value)}", markup=False)
    parallel = found.record.parallel
    if parallel is not None and parallel.replicas:
        console.print("[bold]replicas[/bold]")
        for replica in parallel.replicas:
            console.print(
                f"  {replica.rank:>4}  {replica.device['name']} on {replica.host}  "
                f"{replica.samples_per_s:,.0f} samples/s, waited {replica.waiting_s:.1f} s",
                markup=False,
            )
    history = found.history
    if history:
        console.print("[bold]epochs[/bold]")
        for row in history:
            console.print(f"  {int(row['epoch']):>4}  " + _row(row), markup=False)
    console.print(f"in {found.path}", markup=False)


@command.command(epilog=examples("tarmac runs compare mnist-mlp-a mnist-mlp-b"))
@cloup.argument(
    "run_names",
    metavar="RUN RUN...",
    nargs=-1,
    shell_complete=complete_trainings,
    help=f"At least two. {_RUN}",
)
@_common
def compare(run_names: Sequence[str], output: Path | None, as_json: bool) -> None:
    """Show what differed between runs and how each went."""
    from rich.table import Table

    from tarmac import runs
    from tarmac.cli.console import make_console

    if len(run_names) < 2:
        raise RequestError(f"{len(run_names)} runs are named, expected at least 2 to compare")
    found = [runs.resolve(name, output) for name in run_names]
    comparison = runs.compare(found)
    if as_json:
        result = {
            "names": comparison.names,
            "differences": comparison.differences,
            "metrics": comparison.metrics,
            "accuracy": comparison.accuracy,
        }
        click.echo(json.dumps(result, indent=2))
        return
    table = Table("", *comparison.names, box=None)
    for key, values in comparison.differences.items():
        table.add_row(key, *(_short(value) for value in values))
    if not comparison.differences:
        table.add_row("nothing differed", *([""] * len(found)))
    table.add_section()
    for key, values in comparison.metrics.items():
        table.add_row(key, *("" if v is None else f"{v:.4f}" for v in values))
    table.add_row("accuracy by epoch", *map(_sparkline, comparison.accuracy))
    make_console().print(table)


@command.command("rm", epilog=examples("tarmac runs rm mnist-mlp-a --yes"))
@cloup.argument(
    "run_names",
    metavar="RUN...",
    nargs=-1,
    required=True,
    shell_complete=complete_trainings,
    help=_RUN,
)
@option("--yes", is_flag=True, help="Do not ask.")
@_common
def remove(run_names: Sequence[str], yes: bool, output: Path | None, as_json: bool) -> None:
    """Delete runs."""
    from tarmac import runs

    found: dict[Path, Run] = {}
    for name in run_names:
        run = runs.resolve(name, output)
        found[run.path.resolve()] = run
    if not yes:
        if not sys.stdin.isatty():
            raise RequestError("nobody is there to ask", hint="Add --yes to delete without asking.")
        for run in found.values():
            click.echo(run.path)
        click.confirm(f"Delete {len(found)} of them?", abort=True)
    for run in found.values():
        runs.remove(run)
        if not as_json:
            click.echo(f"deleted {run.path}")
    if as_json:
        click.echo(json.dumps({"deleted": [str(run.path) for run in found.values()]}, indent=2))


def _devices(run: Run) -> str:
    configuration = run.record.configuration
    # Records of schema 1 know one device.
    return str(configuration.get("devices") or configuration.get("device", ""))


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items()) or "none"
    return "" if value is None else str(value)


def _row(row: dict[str, float]) -> str:
    parts = [
        f"{key} {row[key]:.4f}"
        for key in ("loss", "accuracy", "val_loss", "val_accuracy")
        if key in row
    ]
    return "  ".join([*parts, f"{row['samples_per_s']:,.0f} samples/s", f"{row['seconds']:.2f} s"])


_BARS = "▁▂▃▄▅▆▇█"

# Wider than this a line tells no more.
_MAX_BARS = 30


def _sparkline(values: Sequence[float]) -> str:
    """Draw a series from its lowest to its highest value."""
    if not values:
        return ""
    step = max(1, -(-len(values) // _MAX_BARS))
    shown = values[::step]
    low, high = min(shown), max(shown)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    drawn = "".join(_BARS[round((value - low) * scale)] for value in shown)
    return f"{drawn} {values[0]:.3f} to {values[-1]:.3f}"

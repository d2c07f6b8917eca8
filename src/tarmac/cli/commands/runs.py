"""``tarmac runs``: parse, call, render."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import cloup

from tarmac.cli.choices import STATUSES, Choice
from tarmac.cli.completion import complete_any_run
from tarmac.cli.options import Group, count_option, examples, json_option, option, output_option
from tarmac.errors import RequestError
from tarmac.run_kinds import KIND_NAMES
from tarmac.wording import counted, in_one_line

_RUN = 'Directory of the run, its name, the beginning of its name or id, or "latest".'


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
    """List, show, compare and remove runs: trainings, searches and jobs."""


def _common(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all commands here have."""
    return output_option()(json_option()(function))  # type: ignore[no-any-return]


_kind = option(
    "--kind",
    "kinds",
    type=click.Choice(KIND_NAMES),
    multiple=True,
    show_default="all",
    help="Show only runs of this kind. May be repeated.",
)


@command.command(
    "list",
    epilog=examples(
        "tarmac runs list --kind job --limit 10",
        "tarmac runs list --status failed",
        "tarmac runs list --workload mnist-mlp --sort test_accuracy",
        "tarmac runs list --json",
    ),
)
@_common
@_kind
@option(
    "--status",
    "states",
    type=Choice(STATUSES),
    multiple=True,
    metavar="STATUS",
    help=f"Show only runs with this status: {', '.join(STATUSES[:-1])} or {STATUSES[-1]}.",
)
@option("--workload", metavar="NAME", help="Show only trainings and searches of this workload.")
@option(
    "--sort",
    "key",
    metavar="KEY",
    show_default="began",
    help="Sort by began, took, or a metric such as test_loss: newest, longest or largest"
    " first. -KEY reverses the order.",
)
@count_option("--limit", show_default="all", help="Print at most N runs.")
def list_all(
    output: Path | None,
    as_json: bool,
    kinds: Sequence[str],
    states: Sequence[str],
    workload: str | None,
    key: str | None,
    limit: int | None,
) -> None:
    """List the runs, the newest first."""
    from tarmac.cli.views.run_list import chosen, print_summaries, summary_row
    from tarmac.run_kinds import index_of

    index = index_of(output)
    summaries, broken = index.summaries(kinds)
    num_all = len(summaries)
    summaries = chosen(summaries, states=states, workload=workload, key=key, limit=limit)
    if as_json:
        click.echo(json.dumps([summary_row(summary) for summary in summaries], indent=2))
        return
    if summaries:
        print_summaries(summaries)
    for run in broken:
        click.echo(in_one_line(f"{run.path.name} cannot be read: {run.reason}"))
    if not summaries:
        such = f" such, of {num_all:,}" if num_all else ""
        click.echo(f"there are none{such} in {index.output}")


@command.command(epilog=examples("tarmac runs show latest"))
@cloup.argument("run", metavar="RUN", shell_complete=complete_any_run, help=_RUN)
@_common
@_kind
def show(run: str, output: Path | None, as_json: bool, kinds: Sequence[str]) -> None:
    """Show a run's settings, machine and results."""
    from tarmac.cli.views.runs import print_job, print_training
    from tarmac.run_kinds import catalogue_of

    match = catalogue_of(kinds, output).find(run)
    if match.kind.name == "search":
        from tarmac.cli.commands.search_studies import show as show_study

        words = [str(match.path), *(["--json"] if as_json else [])]
        show_study.main(words, prog_name="tarmac search show", standalone_mode=False)
        return
    show_one = print_training if match.kind.name == "training" else print_job
    show_one(match.path, as_json=as_json)


@command.command(epilog=examples("tarmac runs logs latest"))
@cloup.argument("run", metavar="RUN", shell_complete=complete_any_run, help=_RUN)
@output_option()
@_kind
def logs(run: str, output: Path | None, kinds: Sequence[str]) -> None:
    """Print the logs of a run's processes: ranks, candidates or tasks."""
    from tarmac.cli.views.runs import print_logs
    from tarmac.files import StorageError
    from tarmac.run_kinds import catalogue_of

    match = catalogue_of(kinds, output).find(run)
    files = match.kind.logs(match.path)
    closed = [
        path
        for path in match.path.iterdir()
        if path.is_dir() and not os.access(path, os.R_OK | os.X_OK)
    ]
    for path in closed:
        click.echo(in_one_line(f"left out: cannot read {path}: Permission denied"), err=True)
    if closed and not files:
        raise StorageError(f"none of the logs of {match.path.name} can be read")
    if not files:
        raise RequestError(
            f"{match.path.name} has no logs",
            hint="A training in one process prints to its terminal and writes no log file.",
        )
    print_logs(files, match.path)


@command.command(epilog=examples("tarmac runs compare mnist-mlp-a mnist-mlp-b"))
@cloup.argument(
    "run_names",
    metavar="RUN RUN...",
    nargs=-1,
    shell_complete=complete_any_run,
    help=f"At least two. {_RUN}",
)
@_common
@_kind
def compare(
    run_names: Sequence[str], output: Path | None, as_json: bool, kinds: Sequence[str]
) -> None:
    """Show the differences between runs and the results of each."""
    from tarmac import runs
    from tarmac.cli.views.runs import print_comparison
    from tarmac.run_kinds import catalogue_of

    if len(run_names) < 2:
        raise RequestError(
            f"{counted(len(run_names), 'run is', 'runs are')} named, expected at least 2 to compare"
        )
    catalogue = catalogue_of(kinds, output)
    matches = [catalogue.find(name) for name in run_names]
    different = {run.kind.name for run in matches}
    if len(different) > 1:
        raise RequestError(f"runs of one kind can be compared, not {' and '.join(different)}")
    comparison = runs.compare([(run.path.name, run.kind.facts(run.path)) for run in matches])
    if as_json:
        result = {
            "names": comparison.names,
            "differences": comparison.differences,
            "metrics": comparison.metrics,
            "judged_by": [
                judged and {"metric": judged.metric, "direction": judged.direction}
                for judged in comparison.judged_by
            ],
            "by_epoch": comparison.curves,
        }
        click.echo(json.dumps(result, indent=2))
        return
    print_comparison(comparison)


@command.command("rm", epilog=examples("tarmac runs rm mnist-mlp-a --yes"))
@cloup.argument(
    "run_names",
    metavar="RUN...",
    nargs=-1,
    required=True,
    shell_complete=complete_any_run,
    help=_RUN,
)
@option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_common
@_kind
def remove(
    run_names: Sequence[str],
    yes: bool,
    output: Path | None,
    as_json: bool,
    kinds: Sequence[str],
) -> None:
    """Delete runs."""
    from tarmac.run_kinds import catalogue_of

    catalogue = catalogue_of(kinds, output)
    matches = {run.path.resolve(): run for run in map(catalogue.find, run_names)}
    if not yes:
        if not sys.stdin.isatty():
            raise RequestError(
                "cannot ask for confirmation without a terminal",
                hint="Add --yes to delete without asking.",
            )
        for run in matches.values():
            click.echo(in_one_line(f"{run.kind.name}  {run.path}"))
        click.confirm(f"Delete {len(matches)} of them?", abort=True)
    for run in matches.values():
        catalogue.remove(run)
        if not as_json:
            click.echo(in_one_line(f"deleted {run.path}"))
    if as_json:
        click.echo(json.dumps({"deleted": [str(run.path) for run in matches.values()]}, indent=2))

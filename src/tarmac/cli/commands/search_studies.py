"""``tarmac search list``, ``show`` and other commands on existing studies."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac import wording
from tarmac.cli.choices import Choice
from tarmac.cli.completion import complete_studies
from tarmac.cli.options import Filename, examples, json_option, option, output_option
from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.runs import JudgedBy, name_words
from tarmac.wording import counted, in_one_line

if TYPE_CHECKING:
    from tarmac.studies import Winner


def _common(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all commands on a study have."""
    storage = option("--storage", metavar="URL", help="Database of the study, with the password.")
    return output_option("Directory of the studies.")(storage(function))  # type: ignore[no-any-return]


study_argument = cloup.argument(
    "study",
    metavar="STUDY",
    shell_complete=complete_studies,
    help='Directory of the study, its name, the beginning of its name, or "latest".',
)


@cloup.command("list", epilog=examples("tarmac search list", "tarmac search list --json"))
@output_option("Directory of the studies.")
@json_option()
def list_them(output: Path | None, as_json: bool) -> None:
    """List the studies, the newest first."""
    from rich.table import Table
    from rich.text import Text

    from tarmac import runs
    from tarmac.cli.console import make_console
    from tarmac.cli.views.study import number_text
    from tarmac.studies import list_studies

    studies, broken = list_studies(output)
    if as_json:
        rows = [
            {
                "name": study.name,
                "path": str(study.path),
                "status": study.status,
                "workload": study.request.workload,
                "method": study.request.method,
                "created_at": study.record.created_at.isoformat(),
                "elapsed_s": study.record.elapsed_s,
                "best": None if study.best is None else study.best.model_dump(),
            }
            for study in studies
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("study", "status", "method", "best", "in the test", "took", box=None)
    for study in studies:
        best = study.best
        table.add_row(
            Text(study.name),
            study.status,
            Text(study.request.method),
            "" if best is None else number_text(best.values[study.request.objective[0]]),
            "" if best is None else _tested(best, study.record.judged_by),
            f"{wording.number_text(study.record.elapsed_s, digits=0)} s",
        )
    make_console().print(table)
    for run in broken:
        click.echo(in_one_line(f"{run.path.name} cannot be read: {run.reason}"))
    if not studies:
        click.echo(f"there are no studies in {output or runs.default_output()}")


def _tested(best: Winner, judged: JudgedBy) -> str:
    """Return a winner's test score; with the metric's name, unless that is accuracy."""
    value = best.tested(judged)
    name = "" if judged.metric == "accuracy" else f"{name_words(judged.metric)} "
    return "" if value is None else f"{name}{wording.number_text(value)}"


@cloup.command("show", epilog=examples("tarmac search show latest"))
@study_argument
@_common
@json_option()
def show(study: str, output: Path | None, storage: str | None, as_json: bool) -> None:
    """Show a study's generations, trials and failures."""
    from rich.markup import escape

    from tarmac.cli.console import make_console
    from tarmac.cli.views.search import generation_table, totals_line, trial_line
    from tarmac.cli.views.study import print_best, result_of
    from tarmac.studies import find_study

    match = find_study(study, output, storage)
    match.ledger.refresh()
    if as_json:
        click.echo(json.dumps(result_of(match) | {"trials": match.trials}, indent=2))
        return
    console = make_console()
    request = match.request
    console.print(f"[bold]{escape(in_one_line(match.name))}[/bold]  {match.status}", markup=True)
    console.print(
        f"{request.workload} by {request.method} over "
        f"{counted(match.space.size, 'network')}, seed {request.seed}",
        markup=False,
    )
    if match.record.why_ended:
        console.print(f"ended: {match.record.why_ended}", markup=False)
    if match.record.error:
        console.print(match.record.error, markup=False)
    console.print(totals_line(match), markup=False)
    console.print(generation_table(match))
    for trial in match.ledger.trials:
        console.print(trial_line(match, trial), markup=False)
    if match.best is not None:
        print_best(match, match.best, match.record.front)


@cloup.command(
    "best", epilog=examples("tarmac search best latest", "tarmac search best latest --json")
)
@study_argument
@_common
@json_option()
def best(study: str, output: Path | None, storage: str | None, as_json: bool) -> None:
    """Print the network that a study found, and the command that trains it."""
    from tarmac.cli.views.study import best_of, print_best
    from tarmac.studies import choose_winner, find_study, front_numbers

    match = find_study(study, output, storage)
    match.ledger.refresh()
    best, front = match.best, match.record.front
    if best is None:
        # The search is running or was stopped: print the best network so far.
        best = choose_winner(match)
        front = front_numbers(match)
    if best is None:
        raise TarmacError(
            f"study {match.name} has no fully trained network yet",
            hint=f"Resume it: tarmac search --resume {quoted(match.path)}",
        )
    if as_json:
        rows = [match.row(match.ledger.trials[number]) for number in front]
        click.echo(json.dumps({"best": best_of(match, best), "front": rows}, indent=2))
        return
    print_best(match, best, front)


@cloup.command("export", epilog=examples("tarmac search export latest --to trials.csv"))
@study_argument
@option(
    "--format",
    "wanted",
    type=Choice(["csv", "json"]),
    show_default="by the ending of --to, else csv",
    help="Format to write.",
)
@option(
    "--to",
    metavar="FILE",
    type=Filename(path_type=Path),
    help="A file, instead of standard output.",
)
@_common
def export_trials(
    study: str, wanted: str | None, to: Path | None, output: Path | None, storage: str | None
) -> None:
    """Write all trials as CSV or JSON."""
    from tarmac.files import write_text
    from tarmac.studies import export, find_study

    match = find_study(study, output, storage)
    text = export(match, wanted or _format_of(to))
    if to is None:
        click.echo(text, nl=False)
        return
    write_text(to, text)
    click.echo(f"wrote {to}", err=True)


def _format_of(target: Path | None) -> str:
    ending = target.suffix.lower() if target is not None else ""
    if ending not in ("", ".csv", ".json"):
        raise RequestError(
            f"{target}: trials are not written as {ending}",
            hint="Give it the ending .csv or .json, or --format.",
        )
    return ending.removeprefix(".") or "csv"


@cloup.command("plot", epilog=examples("tarmac search plot latest --to plot.html"))
@study_argument
@option(
    "--to",
    metavar="FILE",
    type=Filename(path_type=Path),
    show_default="plot.html in the study",
    help="The page that is written.",
)
@_common
def plot(study: str, to: Path | None, output: Path | None, storage: str | None) -> None:
    """Write a self-contained page of plots, which needs no network."""
    from tarmac.files import write_text
    from tarmac.pages import render_page, search_page
    from tarmac.studies import find_study

    match = find_study(study, output, storage)
    path = to or match.path / "plot.html"
    write_text(path, render_page(search_page(match.path, storage)))
    click.echo(f"wrote {path}")


@cloup.command("dashboard", epilog=examples("tarmac search dashboard latest --port 8081"))
@study_argument
@option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 is every network, open to all who reach this machine.",
)
@option(
    "--port",
    type=int,
    metavar="N",
    default=8080,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@_common
def dashboard(
    study: str,
    host: str,
    port: int,
    output: Path | None,
    storage: str | None,
) -> None:
    """Serve a study in optuna-dashboard, until Ctrl-C."""
    from tarmac.studies import find_study, serve_dashboard

    match = find_study(study, output, storage)
    serve_dashboard(
        match, host, port, lambda url: click.echo(f"{match.name}: {url} (Ctrl-C ends it)")
    )

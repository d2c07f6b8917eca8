"""``tarmac search``: parse, call, render."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
from click.shell_completion import CompletionItem

from tarmac.cli.choices import METHODS, OBJECTIVES, PRUNING_RULES, Choice
from tarmac.cli.completion import complete_objectives, complete_studies, complete_workloads
from tarmac.cli.imports import uncollected_imports
from tarmac.cli.options import (
    GroupWithMain,
    MainCommand,
    count_option,
    examples,
    json_option,
    option,
    output_option,
    summary_of,
)
from tarmac.errors import Interrupted, RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarmac.studies import Study

__all__ = ["begin", "command"]


def _complete_first(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = [name for name in command.commands if name.startswith(incomplete)]
    commands = [CompletionItem(name, help=summary_of(command.commands[name])) for name in names]
    return complete_workloads(ctx, parameter, incomplete) + commands


@click.group("search", cls=GroupWithMain)
def command() -> None:
    """Search for a good network: evolve, try all, or sample."""


@cloup.command(
    "search",
    cls=MainCommand,
    epilog=examples(
        "tarmac search digits-mlp --set hidden=8,16,32,64 --trials 10",
        "tarmac search mlp-evolve --set dataset=digits --budget 10m",
        "tarmac search my_model.py:workload --space space.yaml --method tpe",
        "tarmac search study.yaml --workers 4",
        "tarmac search --resume latest",
        "tarmac search best latest",
        "tarmac search -- list                 a workload that is called as a command",
    ),
)
@cloup.argument(
    "what",
    metavar="[WORKLOAD|STUDY]",
    required=False,
    shell_complete=_complete_first,
    help="WORKLOAD is a name of tarmac train --list or my_model.py:workload; STUDY is a YAML file, "
    "or a study that comes with Tarmac: mlp-evolve.",
)
@cloup.option_group(
    "What is searched over",
    option(
        "--space",
        "space_file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="A YAML file of parameters and their values.",
    ),
    option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUES",
        help="Search over a setting: v1,v2, lo..hi, lo..hi:log or lo..hi:step; one value fixes "
        "it. May be repeated.",
    ),
    option(
        "--objective",
        metavar="NAMES",
        show_default="val_accuracy",
        shell_complete=complete_objectives,
        help=f"What counts, the first most: {', '.join(OBJECTIVES)}.",
    ),
)
@cloup.option_group(
    "How it is searched",
    option(
        "--method",
        type=Choice(METHODS, "tarmac.search_methods"),
        show_default="evolve",
        help="Evolution, all networks, at random, or a sampler of Optuna's.",
    ),
    count_option("--generations", show_default="10", help="Generations of the evolution, at most."),
    count_option(
        "--population", show_default="20", help="Networks in a generation, with survivors."
    ),
    option(
        "--retain",
        type=float,
        metavar="SHARE",
        show_default="0.4",
        help="Share that survives by fitness.",
    ),
    option(
        "--random-select",
        type=float,
        metavar="CHANCE",
        show_default="0.1",
        help="Chance of each other to survive.",
    ),
    option(
        "--mutate",
        type=float,
        metavar="CHANCE",
        show_default="0.2",
        help="Chance of a child to have one gene changed.",
    ),
    option(
        "--seed",
        type=int,
        metavar="N",
        show_default="0",
        help="Decides every draw of the search, and each training's.",
    ),
)
@cloup.option_group(
    "When it ends",
    count_option("--trials", help="End after N trainings."),
    option("--budget", metavar="TIME", help="End after so much time, such as 30m or 2h."),
    option(
        "--prune",
        type=Choice(PRUNING_RULES, "tarmac.pruning_rules"),
        show_default="none",
        help="Stop losers early.",
    ),
    count_option(
        "--confirm",
        show_default="0",
        help="Train the best N from two more seeds at the end.",
    ),
)
@cloup.option_group(
    "Each training",
    count_option("--epochs", show_default="the workload's", help="Epochs of each, at most."),
    count_option("--patience", help="Stop one after N epochs without a lower val_loss."),
    count_option("--train-size", show_default="all", help="Train on the first N samples."),
    count_option(
        "--validation-size",
        show_default="one for five to train on, at most 10,000",
        help="Samples held out of training, which judge.",
    ),
)
@cloup.option_group(
    "Where",
    option(
        "--devices",
        "--device",
        "devices",
        metavar="DEVICES",
        show_default="auto",
        help="As of tarmac train.",
    ),
    count_option("--workers", show_default="by devices", help="Networks trained at the same time."),
    option("--storage", metavar="URL", help="An Optuna database instead of a journal file."),
    output_option("Where studies are made."),
    option(
        "--resume",
        metavar="STUDY",
        shell_complete=complete_studies,
        help="Go on with a study that was stopped: its directory, its name, or latest.",
    ),
    json_option("Print the result as JSON, and only that."),
)
@click.pass_context
def begin(
    ctx: click.Context,
    /,
    what: str | None,
    space_file: Path | None,
    settings: Sequence[str],
    output: Path | None,
    resume: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search for a good network: evolve, try all, or sample.

    Candidates are judged on held-out data, and the best is scored on the test set once.
    """
    with uncollected_imports():
        from tarmac.cli.views.search import reporter_for
        from tarmac.studies import open_study, work_on

    fields = {name: value for name, value in options.items() if value is not None}
    space = _space(space_file, settings)
    if space:
        fields["space"] = space
    study = open_study(what, output=output, resume=resume, **fields)
    # A second Ctrl-C, which does not wait for what is under way, is told like the first.
    with reporter_for(quiet=as_json) as reporter, contextlib.suppress(KeyboardInterrupt):
        work_on(study, reporter)
    _conclude(study, as_json=as_json)
    ctx.exit(0 if study.record.status == "completed" else 1)


def _space(file: Path | None, settings: Sequence[str]) -> dict[str, Any]:
    from tarmac.studies import parse_set, read_space

    found: dict[str, Any] = {} if file is None else dict(read_space(file))
    named: dict[str, str] = {}
    for text in settings:
        key, values = parse_set(text)
        if key in named:
            raise RequestError(f"--set {key} is given twice: {named[key]!r} and {text!r}")
        named[key] = text
        found[key] = values
    return found


def _conclude(study: Study, *, as_json: bool) -> None:
    from tarmac.cli.views.study import print_best, result_of

    record = study.record
    if as_json:
        click.echo(json.dumps(result_of(study), indent=2))
    elif record.best is not None and record.status == "completed":
        print_best(study, record.best, record.front)
    if record.status in ("interrupted", "running"):
        raise Interrupted(
            "interrupted; finished networks are kept, those under way will be repeated",
            hint=f"Go on: tarmac search --resume {study.path}",
        )
    if record.status == "failed":
        raise TarmacError(record.error or "failed", hint=f"See: tarmac search show {study.path}")


def _common(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every command on a study has."""
    storage = option("--storage", metavar="URL", help="Its database, with the password.")
    return output_option("Where studies lie.")(storage(function))  # type: ignore[no-any-return]


_study = cloup.argument(
    "study",
    metavar="STUDY",
    shell_complete=complete_studies,
    help='Its directory, its name, the beginning of its name, or "latest".',
)


@command.command("list", epilog=examples("tarmac search list", "tarmac search list --json"))
@output_option("Where studies lie.")
@json_option()
def _list(output: Path | None, as_json: bool) -> None:
    """List the studies, the newest first."""
    from rich.table import Table

    from tarmac import runs
    from tarmac.cli.console import make_console
    from tarmac.cli.views.study import number_text
    from tarmac.studies import list_studies

    found, broken = list_studies(output)
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
            for study in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table("study", "status", "method", "best", "test accuracy", "took", box=None)
    for study in found:
        best = study.best
        table.add_row(
            study.name,
            study.status,
            study.request.method,
            "" if best is None else number_text(next(iter(best.values.values()))),
            "" if best is None or best.test_accuracy is None else f"{best.test_accuracy:.4f}",
            f"{study.record.elapsed_s:.0f} s",
        )
    make_console().print(table)
    for path, why in broken:
        click.echo(f"{path.name} cannot be read: {why}")
    if not found:
        click.echo(f"there are none in {output or runs.default_output()}")


@command.command("show", epilog=examples("tarmac search show latest"))
@_study
@_common
@json_option()
def _show(study: str, output: Path | None, storage: str | None, as_json: bool) -> None:
    """Show how a study went: generations, trials, what failed."""
    from tarmac.cli.console import make_console
    from tarmac.cli.views.search import generation_table, totals_line, trial_line
    from tarmac.cli.views.study import print_best, result_of
    from tarmac.studies import find_study

    found = find_study(study, output, storage)
    found.ledger.refresh()
    if as_json:
        click.echo(json.dumps(result_of(found) | {"trials": found.trials}, indent=2))
        return
    console = make_console()
    request = found.request
    console.print(f"[bold]{found.name}[/bold]  {found.status}", markup=True)
    size = found.space.size
    console.print(
        f"{request.workload} by {request.method} over "
        f"{'infinitely many' if size is None else f'{size:,}'} networks, seed {request.seed}",
        markup=False,
    )
    if found.record.why_ended:
        console.print(f"ended: {found.record.why_ended}", markup=False)
    if found.record.error:
        console.print(found.record.error, markup=False)
    console.print(totals_line(found), markup=False)
    console.print(generation_table(found))
    for trial in found.ledger.trials:
        console.print(trial_line(found, trial), markup=False)
    if found.best is not None:
        print_best(found, found.best, found.record.front)


@command.command(
    "best", epilog=examples("tarmac search best latest", "tarmac search best latest --json")
)
@_study
@_common
@json_option()
def _best(study: str, output: Path | None, storage: str | None, as_json: bool) -> None:
    """Print the network that a study found, and the line that trains it."""
    from tarmac.cli.views.study import best_of, print_best
    from tarmac.studies import choose_winner, find_study, front_numbers

    found = find_study(study, output, storage)
    found.ledger.refresh()
    best, front = found.best, found.record.front
    if best is None:
        # The search is under way or was stopped: the best so far.
        best = choose_winner(found)
        front = front_numbers(found)
    if best is None:
        raise TarmacError(
            f"study {found.name} has no network yet that was trained to its end",
            hint=f"Go on with it: tarmac search --resume {found.path}",
        )
    if as_json:
        rows = [found.row(found.ledger.trials[number]) for number in front]
        click.echo(json.dumps({"best": best_of(found, best), "front": rows}, indent=2))
        return
    print_best(found, best, front)


@command.command("export", epilog=examples("tarmac search export latest --to trials.csv"))
@_study
@option(
    "--format",
    "wanted",
    type=Choice(["csv", "json"]),
    show_default="by the name of --to, else csv",
    help="What is written.",
)
@option(
    "--to",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A file, instead of standard output.",
)
@_common
def _export(
    study: str, wanted: str | None, to: Path | None, output: Path | None, storage: str | None
) -> None:
    """Write all trials as CSV or JSON."""
    from tarmac.files import write_text
    from tarmac.studies import export, find_study

    found = find_study(study, output, storage)
    is_json = to is not None and to.suffix == ".json"
    text = export(found, wanted or ("json" if is_json else "csv"))
    if to is None:
        click.echo(text, nl=False)
        return
    write_text(to, text)
    click.echo(f"wrote {to}", err=True)


@command.command("plot", epilog=examples("tarmac search plot latest --to plot.html"))
@_study
@option(
    "--to",
    metavar="FILE",
    type=click.Path(path_type=Path),
    show_default="plot.html in the study",
    help="The page that is written.",
)
@_common
def _plot(study: str, to: Path | None, output: Path | None, storage: str | None) -> None:
    """Write a page of plots that needs nothing else, not even a network."""
    from tarmac.files import write_text
    from tarmac.studies import find_study, render_page

    found = find_study(study, output, storage)
    path = to or found.path / "plot.html"
    write_text(path, render_page(found))
    click.echo(f"wrote {path}")


@command.command("dashboard", epilog=examples("tarmac search dashboard latest --port 8081"))
@_study
@option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="What it listens on; 0.0.0.0 is every network, for all who reach this machine.",
)
@option(
    "--port",
    type=int,
    metavar="N",
    default=8080,
    show_default=True,
    help="The port, or 0 for one that is free.",
)
@_common
def _dashboard(
    study: str,
    host: str,
    port: int,
    output: Path | None,
    storage: str | None,
) -> None:
    """Serve a study in optuna-dashboard, until Ctrl-C."""
    from tarmac.studies import find_study, serve_dashboard

    found = find_study(study, output, storage)
    serve_dashboard(
        found, host, port, lambda url: click.echo(f"{found.name}: {url} (Ctrl-C ends it)")
    )


begin.serve(command)

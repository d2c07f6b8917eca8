"""`tarmac report`: a run as one page, or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.completion import complete_any_run
from tarmac.cli.options import Filename, examples, option, output_option
from tarmac.wording import in_one_line

if TYPE_CHECKING:
    from tarmac.runs import FoundRun

_STANDARD_OUTPUT = Path("-")
_NAME = "report.html"


@cloup.command(
    "report",
    epilog=examples(
        "tarmac report latest",
        "tarmac report mnist-mlp-a mnist-mlp-b --html both.html",
        "tarmac report latest --html - > page.html",
    ),
)
@cloup.argument(
    "run_names",
    metavar="RUN...",
    nargs=-1,
    required=True,
    shell_complete=complete_any_run,
    help='Directory of the run, its name, the beginning of its name or id, or "latest"; '
    "several runs of one kind appear side by side. Or the directory of a job's "
    "task, RUN/tasks/...; or a file of tarmac check --json.",
)
@option(
    "--html",
    "file",
    type=Filename(path_type=Path, dir_okay=False, allow_dash=True),
    metavar="FILE",
    show_default="report.html in the run's directory, of several runs in this one",
    help='File to write the page to; "-" is standard output.',
)
@option(
    "--no-pictures",
    is_flag=True,
    help="Do not predict the test images, which needs PyTorch.",
)
@output_option()
def command(
    run_names: Sequence[str], file: Path | None, no_pictures: bool, output: Path | None
) -> None:
    """Write one page that needs no network about a run, or about several side by side."""
    from tarmac.errors import RequestError, quoted
    from tarmac.pages import is_apart, report
    from tarmac.run_kinds import catalogue_of

    for apart in filter(is_apart, map(Path, run_names)):
        if len(run_names) > 1:
            raise RequestError(
                f"{apart} has its own page; only runs can be compared",
                hint=f"Open its page: tarmac report {quoted(apart)}",
            )
        beside = apart.with_suffix(".html") if apart.is_file() else apart / _NAME
        _write(report([apart]), file or beside)
        return
    catalogue = catalogue_of((), output)
    # Two names may refer to the same run.
    runs = [*{run.path.resolve(): run for run in map(catalogue.find, run_names)}.values()]
    if len(runs) == 1 and not no_pictures:
        _look_at_mistakes(runs[0])
    page = report([run.path for run in runs])
    if file != _STANDARD_OUTPUT:
        for run in runs:
            summary = run.kind.summarize(run.path)
            result = f": {summary.result}" if summary.result else ""
            click.echo(in_one_line(f"{summary.kind} {summary.name} {summary.status}{result}"))
    _write(page, file or (runs[0].path if len(runs) == 1 else Path()) / _NAME)


def _write(page: str, file: Path) -> None:
    from tarmac.files import write_bytes

    if file == _STANDARD_OUTPUT:
        click.echo(page, nl=False)
        return
    # Names of files may have bytes that are not UTF-8.
    write_bytes(file, page.encode(errors="replace"))
    click.echo(in_one_line(f"report {file}"))


def _look_at_mistakes(found_run: FoundRun) -> None:
    """Predict a completed training's test images, unless its predictions exist."""
    from tarmac.distribution import MissingExtraError, explained_imports
    from tarmac.errors import TarmacError
    from tarmac.runs import PREDICTIONS, TRAINING, Run

    if found_run.kind is not TRAINING or (found_run.path / PREDICTIONS).exists():
        return
    run = Run.open(found_run.path)
    if run.status != "completed":
        return
    try:
        with explained_imports():
            from tarmac.training import look_at_mistakes
        look_at_mistakes(run)
    except MissingExtraError:
        # The page is also made without PyTorch.
        return
    except TarmacError as error:
        click.echo(in_one_line(f"without pictures: {error.message}"), err=True)

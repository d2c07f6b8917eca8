"""``tarmac convert``: parse, call, render."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.choices import CONVERTED, EXECUTORS, Choice
from tarmac.cli.job_files import read_jobs
from tarmac.cli.options import Filename, examples, option, pairs_option
from tarmac.errors import RequestError, quoted
from tarmac.wording import in_lines

if TYPE_CHECKING:
    from tarmac.formats import Reading


@cloup.command(
    "convert",
    epilog=examples(
        "tarmac convert shipyard/ > job.yaml",
        "tarmac convert job.yaml --to hkube > algorithm.json",
        "tarmac convert job.yaml --to skypilot > task.yaml",
    ),
)
@cloup.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=Filename(path_type=Path),
    help="Job files of Tarmac, HKube or Batch Shipyard; a folder stands for the Batch "
    "Shipyard files in it.",
)
@option(
    "--to",
    "wanted",
    type=Choice(CONVERTED, "tarmac.formats"),
    default="tarmac",
    show_default=True,
    help="Format to write; or a cluster, to print the files that a run --on it would "
    "submit, as --dry-run shows them.",
)
@pairs_option(
    "--set",
    "settings",
    help="Change a value of the file first, such as "
    "options.kubernetes.image=python:3.12-slim. May be repeated.",
)
@option(
    "--algorithms",
    type=Filename(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    show_default="beside the pipeline's file",
    help="Directory with the definitions of the algorithms and pipelines that an HKube "
    "pipeline names.",
)
def command(
    files: Sequence[Path],
    wanted: str,
    settings: Sequence[tuple[str, str]],
    algorithms: Path | None,
) -> None:
    """Print a job file in another format.

    Values that have no meaning in that format are stored in the job.
    """
    from tarmac.formats import Unwritable, find_format

    if wanted in EXECUTORS:
        readings = read_jobs(files, settings, quiet=False, is_run=False, algorithms=algorithms)
        _print_submitted(readings, wanted)
        return
    target = find_format(wanted)
    if target.write is None:
        raise RequestError(f"Tarmac reads {target.title}'s files, but cannot write them")
    readings = read_jobs(files, settings, quiet=False, is_run=False, algorithms=algorithms)
    jobs = [job for reading, _ in readings for job in reading.jobs]
    if len(jobs) > 1 and not target.holds_several:
        shown = quoted(*files)
        raise RequestError(
            f"{shown} holds {len(jobs)} jobs, but a file of {target.title} holds one",
            hint=f"tarmac run {shown} runs them as they are",
        )
    try:
        written = target.write(jobs, readings[0][1])
    except Unwritable as error:
        source = readings[0][0].source if len(jobs) == 1 else None
        raise (error if source is None else error.in_file(source)) from None
    for note in written.notes:
        click.echo(in_lines(f"note: {note}"), err=True)
    click.echo(written.text, nl=False)


def _print_submitted(readings: Sequence[tuple[Reading, Path]], on: str) -> None:
    """Print the files that a run of the jobs would submit, with the title of each as a note."""
    from tarmac.cli.dry_run import files_of
    from tarmac.cli.views.job_plan import plans_of

    for job in (job for reading, _ in readings for job in reading.jobs):
        if job.pipeline is not None:
            raise RequestError(
                f"{job.name} is a pipeline: its tasks are not known before it runs",
                hint="See its plan: tarmac run FILE --dry-run",
            )
    for plan in plans_of(readings):
        for title, text in files_of(plan, on):
            click.echo(in_lines(f"note: {title}"), err=True)
            click.echo(text)

"""``tarmac convert``: parse, call, render."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from tarmac.cli.choices import Choice
from tarmac.cli.job_files import say_notes
from tarmac.cli.options import examples, option
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@cloup.command(
    "convert",
    epilog=examples(
        "tarmac convert shipyard/ > job.yaml",
        "tarmac convert job.yaml --to hkube > algorithm.json",
    ),
)
@cloup.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(path_type=Path),
    help="Job files of Tarmac's, HKube's or Batch Shipyard's; a folder stands for the Batch "
    "Shipyard files in it.",
)
@option(
    "--to",
    "wanted",
    type=Choice(["tarmac", "shipyard", "hkube"], "tarmac.formats"),
    default="tarmac",
    show_default=True,
    help="The format to write.",
)
@option(
    "--algorithms",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    show_default="beside the pipeline's file",
    help="Where definitions of the algorithms and pipelines lie that an HKube pipeline names.",
)
def command(files: Sequence[Path], wanted: str, algorithms: Path | None) -> None:
    """Print a job file in another format.

    What has no meaning there is stored in the job.
    """
    from tarmac.formats import find_format, read_paths

    target = find_format(wanted)
    if target.write is None:
        raise RequestError(f"{target.title}'s files are read, and not written")
    folders = [] if algorithms is None else [algorithms]
    readings = read_paths(files, environment=os.environ, folders=folders)
    for reading, _ in readings:
        say_notes(reading, quiet=False, is_used=False)
    jobs = [job for reading, _ in readings for job in reading.jobs]
    if len(jobs) > 1 and not target.holds_several:
        shown = " ".join(map(str, files))
        raise RequestError(
            f"{shown} holds {len(jobs)} jobs, and a file of {target.title}'s holds one",
            hint=f"tarmac run {shown} runs them as they are",
        )
    written = target.write(jobs, readings[0][1])
    for note in written.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(written.text, nl=False)

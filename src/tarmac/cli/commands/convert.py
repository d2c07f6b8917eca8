"""``tarmac convert``: parse, call, render."""

from __future__ import annotations

import json
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
    type=Choice(["tarmac", "shipyard", "hkube"]),
    default="tarmac",
    show_default=True,
    help="The format that is printed.",
)
def command(files: Sequence[Path], wanted: str) -> None:
    """Print a job file in another format.

    What has no meaning there is kept in the job.
    """
    from tarmac.formats import notes_for_hkube, read_paths, write_hkube, write_shipyard
    from tarmac.jobs.foreign import dump_document

    readings = read_paths(files, environment=os.environ)
    for reading, _ in readings:
        say_notes(reading, quiet=False, is_used=wanted == "hkube")
    jobs = [job for reading, _ in readings for job in reading.jobs]
    if wanted == "hkube":
        definitions = [write_hkube(job) for job in jobs]
        for job in jobs:
            for note in notes_for_hkube(job):
                click.echo(f"note: {note}", err=True)
        click.echo(json.dumps(definitions if len(definitions) > 1 else definitions[0], indent=2))
        return
    if wanted == "shipyard":
        value, notes = write_shipyard(jobs, readings[0][1])
        for note in notes:
            click.echo(f"note: {note}", err=True)
        click.echo(dump_document(value), nl=False)
        return
    dumped = [job.model_dump(mode="json", by_alias=True, exclude_unset=True) for job in jobs]
    if len(dumped) > 1:
        shown = " ".join(map(str, files))
        raise RequestError(
            f"{shown} holds {len(dumped)} jobs, and a file of Tarmac's holds one",
            hint=f"tarmac run {shown} runs them as they are",
        )
    click.echo(dump_document(dumped[0]), nl=False)

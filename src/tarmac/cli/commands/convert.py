"""``tarmac convert``: parse, call, render."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.cli.job_files import say_notes
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command"]


@click.command("convert", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--to",
    "wanted",
    type=click.Choice(["tarmac", "shipyard", "hkube"]),
    default="tarmac",
    show_default=True,
)
def command(files: Sequence[Path], wanted: str) -> None:
    """Print FILES in another format; what has no meaning there is kept in the job.

    A folder stands for the Batch Shipyard files in it.
    """
    from tarmac.documents import dump_document
    from tarmac.formats import notes_for_hkube, read_paths, write_hkube, write_shipyard

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

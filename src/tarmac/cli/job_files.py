"""Job files from the command line: which files, changed how, with secrets from where."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tarmac.documents import Document
    from tarmac.formats import Reading
    from tarmac.jobs import Secret

__all__ = ["read_jobs", "say_notes", "secret_places"]


def read_jobs(
    files: Sequence[Path], settings: Sequence[tuple[str, str]], *, quiet: bool, is_run: bool
) -> list[tuple[Reading, Path]]:
    """Read job files of any format.

    Args:
        files: Or a folder of Batch Shipyard's files.
        settings: Keys and their new values, changes to what the files say.
        quiet: Print no notes.
        is_run: Whether the jobs are going to be run, so that one that cannot be is refused.

    Returns:
        What each file holds, with the directory that its paths start from.

    Raises:
        RequestError: A file cannot be read, is wrong, or cannot be run here.
    """
    from tarmac.documents import change_document
    from tarmac.formats import read_paths

    def change(document: Document) -> Document:
        for key, new in settings:
            try:
                document = change_document(document, key, new)
            except RequestError as error:
                raise RequestError(f"--set {error.message}", hint=error.hint) from error
        return document

    readings = read_paths(files, change=change, environment=os.environ)
    for reading, _ in readings:
        say_notes(reading, quiet=quiet, is_used=is_run)
    return readings


def say_notes(reading: Reading, *, quiet: bool, is_used: bool) -> None:
    """Print the notes on what was read; refuse to use what cannot be run."""
    if not quiet:
        for note in reading.notes:
            click.echo(f"note: {note}", err=True)
    if reading.refusals and is_used:
        first, *rest = reading.refusals
        more = "It can be shown all the same: --dry-run"
        raise RequestError(f"cannot be run here: {first}", hint="\n".join([*rest, more]))
    if not quiet:
        for refusal in reading.refusals:
            click.secho(f"cannot be run here: {refusal}", fg="yellow", err=True)


def secret_places(texts: Sequence[str]) -> dict[str, Secret]:
    """Read where secrets are to be found, from ``NAME/KEY=env:VARIABLE`` or ``=file:PATH``.

    Raises:
        RequestError: One is not of this form; what it holds is in no message.
    """
    from tarmac.jobs import Secret

    found = {}
    for text in texts:
        name, separator, place = text.partition("=")
        kind, _, value = place.partition(":")
        if not separator or kind not in ("env", "file") or not value:
            # What was given may be the secret itself.
            raise RequestError(
                f"--secret {name}=... is not of the form NAME/KEY=env:VARIABLE or =file:PATH"
            )
        found[name] = Secret(env=value) if kind == "env" else Secret(file=value)
    return found

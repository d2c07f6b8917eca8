"""Job files of the command line, with changed values, and the places of secrets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.errors import RequestError
from tarmac.wording import in_lines

if TYPE_CHECKING:
    from tarmac.documents import Document
    from tarmac.formats import Reading
    from tarmac.jobs import Secret
    from tarmac.settings import Settings


def read_jobs(
    files: Sequence[Path],
    settings: Sequence[tuple[str, str]],
    *,
    quiet: bool,
    is_run: bool,
    algorithms: Path | None = None,
    input_file: Path | None = None,
    below: Settings | None = None,
) -> list[tuple[Reading, Path]]:
    """Read job files of any format.

    Args:
        files: Paths of the files, or of a folder of Batch Shipyard's files.
        settings: Keys and their new values, which change the files.
        quiet: Whether to suppress the notes and refusals of a file on standard error.
        is_run: Whether the jobs will run. Then jobs that cannot run are refused.
        algorithms: Folder with the algorithms and pipelines that a pipeline names. Default: none.
        input_file: File with the input of an algorithm or a pipeline. Default: none.
        below: The user's settings, which apply where a job sets nothing. Default: none.

    Returns:
        The content of each file, with the directory that its paths start from.

    Raises:
        RequestError: A file cannot be read, is invalid, or cannot be run here.
    """
    from tarmac.documents import change_document, place_in, read_plain
    from tarmac.formats import InputError, is_own, read_paths, takes_flow_input, with_input

    if algorithms is not None and not algorithms.is_dir():
        raise RequestError(f"--algorithms {algorithms} is not a folder")
    if input_file is not None and len(files) > 1:
        raise RequestError(f"--input {input_file} takes one job file, but there are {len(files)}")
    values = () if input_file is None else (read_plain(input_file),)
    # Files of other systems have no keys for options of executors.
    engines = _settings_of_engines(settings)
    options = _options_of(engines)

    def give(document: Document) -> Document:
        for value in values:
            try:
                return with_input(document, value)
            except InputError as error:
                assert input_file is not None
                where = place_in(input_file, error.path)
                raise RequestError(f"--input {where}: {error.message}", hint=error.hint) from error
            except RequestError as error:
                raise RequestError(
                    f"--input {input_file}: {error.message}", hint=error.hint
                ) from error
        return document

    def change(document: Document) -> Document:
        # A single value overrides a whole input; keys of a definition are those of its file.
        if takes_flow_input(document.value):
            return set_values(give(document))
        return give(set_values(document))

    def set_values(document: Document) -> Document:
        of_engines = () if is_own(document) else engines
        for key, new in (pair for pair in settings if pair not in of_engines):
            try:
                document = change_document(document, key, new)
            except RequestError as error:
                raise RequestError(f"--set {error.message}", hint=error.hint) from error
        return document

    folders = [] if algorithms is None else [algorithms]
    readings = [
        (reading if reading.format == "tarmac" else _with_options(reading, options), base)
        for reading, base in read_paths(
            files, change=change, environment=os.environ, folders=folders
        )
    ]
    for reading, _ in readings:
        say_notes(reading, quiet=quiet, is_used=is_run)
    if below is None:
        return readings
    return [
        (dataclasses.replace(reading, jobs=tuple(map(below.applied_to, reading.jobs))), base)
        for reading, base in readings
    ]


def _settings_of_engines(settings: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the settings that only one executor reads: ``options.slurm.partition``."""
    from tarmac.jobs import executor_names

    names = executor_names()
    parts = [(key.split("."), (key, new)) for key, new in settings]
    return [pair for (first, *rest), pair in parts if first == "options" and {*rest[:1]} & {*names}]


def _options_of(settings: Sequence[tuple[str, str]]) -> Mapping[str, Mapping[str, Any]]:
    """Return options by executor, after the executors have validated them."""
    from tarmac.documents import Document, change_document
    from tarmac.jobs import job_of

    document = Document("--set", {"name": "options", "command": ["true"]}, {})
    for key, new in settings:
        try:
            document = change_document(document, key, new)
        except RequestError as error:
            raise RequestError(f"--set {error.message}", hint=error.hint) from error
    return job_of(document).options


def _with_options(reading: Reading, options: Mapping[str, Mapping[str, Any]]) -> Reading:
    if not options:
        return reading
    jobs = []
    for job in reading.jobs:
        names = dict.fromkeys([*job.options, *options])
        merged = {name: {**job.options.get(name, {}), **options.get(name, {})} for name in names}
        jobs.append(job.model_copy(update={"options": merged}))
    return dataclasses.replace(reading, jobs=tuple(jobs))


def say_notes(reading: Reading, *, quiet: bool, is_used: bool) -> None:
    """Print the notes on a file; refuse to use jobs that cannot run."""
    if not quiet:
        for note in reading.notes:
            click.echo(in_lines(f"note: {note}"), err=True)
    if reading.refusals and is_used:
        first, *rest = reading.refusals
        more = "Its plan can still be shown: --dry-run"
        raise RequestError(f"cannot be run here: {first}", hint="\n".join([*rest, more]))
    if not quiet:
        for refusal in reading.refusals:
            click.secho(in_lines(f"cannot be run here: {refusal}"), fg="yellow", err=True)


def secret_places(texts: Sequence[str]) -> dict[str, Secret]:
    """Read the places of secrets from ``NAME/KEY=env:VARIABLE`` or ``=file:PATH``.

    Raises:
        RequestError: A text is not of this form; the message does not show its value.
    """
    from tarmac.jobs import Secret

    secrets = {}
    for text in texts:
        name, separator, place = text.partition("=")
        kind, _, value = place.partition(":")
        if not separator or kind not in ("env", "file") or not value:
            # The value may be the secret itself.
            raise RequestError(
                f"--secret {name}=... is not of the form NAME/KEY=env:VARIABLE or =file:PATH"
            )
        secrets[name] = Secret(env=value) if kind == "env" else Secret(file=value)
    return secrets

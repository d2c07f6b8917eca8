"""Job files from the command line: which files, changed how, with secrets from where."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import click

from tarmac.errors import RequestError
from tarmac.wording import in_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

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
    given: Path | None = None,
    below: Settings | None = None,
) -> list[tuple[Reading, Path]]:
    """Read job files of any format.

    Args:
        files: Or a folder of Batch Shipyard's files.
        settings: Keys and their new values, changes to what the files say.
        quiet: Whether to suppress notes and refusals that reading a file produces, on stderr.
        is_run: Whether the jobs are going to be run, so that one that cannot be is refused.
        algorithms: A folder with definitions of algorithms and pipelines, which a pipeline names.
        given: A file with the input of an algorithm, or of a pipeline.
        below: The user's settings, which hold where a job says nothing.

    Returns:
        What each file holds, with the directory that its paths start from.

    Raises:
        RequestError: A file cannot be read, is wrong, or cannot be run here.
    """
    from tarmac.documents import change_document, place_in, read_plain
    from tarmac.formats import InputError, is_own, read_paths, takes_flow_input, with_input

    if algorithms is not None and not algorithms.is_dir():
        raise RequestError(f"--algorithms {algorithms} is no folder")
    if given is not None and len(files) > 1:
        raise RequestError(f"--input {given} is for one file, and there are {len(files)}")
    values = () if given is None else (read_plain(given),)
    # Other systems' files have no place for them.
    engines = _settings_of_engines(settings)
    options = _options_of(engines)

    def give(document: Document) -> Document:
        for value in values:
            try:
                return with_input(document, value)
            except InputError as error:
                assert given is not None
                where = place_in(given, error.path)
                raise RequestError(f"--input {where}: {error.message}", hint=error.hint) from error
            except RequestError as error:
                raise RequestError(f"--input {given}: {error.message}", hint=error.hint) from error
        return document

    def change(document: Document) -> Document:
        # A single value goes over a whole input; a definition's keys are those of its file.
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
    """Return those settings that only one executor understands: ``options.slurm.partition``."""
    from tarmac.jobs import executor_names

    names = executor_names()
    parts = [(key.split("."), (key, new)) for key, new in settings]
    return [pair for (first, *rest), pair in parts if first == "options" and {*rest[:1]} & {*names}]


def _options_of(settings: Sequence[tuple[str, str]]) -> Mapping[str, Mapping[str, Any]]:
    """Return options by executor, once it is seen that the executors understand them."""
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
    """Print the notes on what was read; refuse to use what cannot be run."""
    if not quiet:
        for note in reading.notes:
            click.echo(in_lines(f"note: {note}"), err=True)
    if reading.refusals and is_used:
        first, *rest = reading.refusals
        more = "It can be shown all the same: --dry-run"
        raise RequestError(f"cannot be run here: {first}", hint="\n".join([*rest, more]))
    if not quiet:
        for refusal in reading.refusals:
            click.secho(in_lines(f"cannot be run here: {refusal}"), fg="yellow", err=True)


def secret_places(texts: Sequence[str]) -> dict[str, Secret]:
    """Read where secrets are to be found, from ``NAME/KEY=env:VARIABLE`` or ``=file:PATH``.

    Raises:
        RequestError: One is not of this form; what it holds is in no message.
    """
    from tarmac.jobs import Secret

    secrets = {}
    for text in texts:
        name, separator, place = text.partition("=")
        kind, _, value = place.partition(":")
        if not separator or kind not in ("env", "file") or not value:
            # What was given may be the secret itself.
            raise RequestError(
                f"--secret {name}=... is not of the form NAME/KEY=env:VARIABLE or =file:PATH"
            )
        secrets[name] = Secret(env=value) if kind == "env" else Secret(file=value)
    return secrets

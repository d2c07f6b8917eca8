"""Reads files of any known format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.documents import parse_document, read_text
from tarmac.errors import RequestError, quoted
from tarmac.files import job_lines
from tarmac.formats.registry import all_formats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tarmac.documents import Document
    from tarmac.formats.format import Format, Reading
    from tarmac.jobs import Job


def is_own(document: Document) -> bool:
    """Whether a document is of Tarmac's own format, rather than of another one that is known."""
    return _format_of(document, all_formats()).name == "tarmac"


def read_any(document: Document) -> Reading:
    """Read a file of any known format, by itself.

    Raises:
        RequestError: It is of none, or wrong in the one that it looks like.
    """
    return _format_of(document, all_formats()).read([document], {})


def read_paths(
    paths: Sequence[Path],
    *,
    change: Callable[[Document], Document] = lambda document: document,
    environment: Mapping[str, str] | None = None,
    folders: Sequence[Path] = (),
) -> list[tuple[Reading, Path]]:
    """Read files and folders of any known format.

    Files that are one configuration, as Batch Shipyard's, are read together: one with jobs and
    the others that are given, or that lie beside it.

    Args:
        paths: Files; or folders of a format whose files lie in folders.
        change: Changes a job file before it is read.
        environment: Usually ``os.environ``; where it names a storage account, Batch Shipyard's
            factories over files ask for what is there.
        folders: Where what belongs to a file is looked for beside its own folder, and goes over it.

    Returns:
        What each holds, and the directory that its paths start from.

    Raises:
        RequestError: One cannot be read, is a program, or is wrong.
    """
    formats = all_formats()
    for path in paths:
        _refuse_program(path)
    files = [file for path in paths for file in _files_of(path, formats)]
    opened = _joined([_open(file, formats) for file in files])
    with_jobs = [file for file in opened if not file.is_part]
    readings = []
    for file in with_jobs:
        base = file.path.resolve().parent
        parts = _parts_of(file.format, opened)
        beside = [*file.format.siblings(file.path, [*parts, file.document])]
        for folder in folders:
            known = [*beside, *parts, file.document]
            beside += file.format.siblings(folder / file.path.name, known)
        # What is changed may be of another file, which one with jobs goes over.
        documents = [*beside, *parts, change(file.document)]
        readings.append((file.format.read(documents, environment or {}), base))
    read_too = {file.format.name for file in with_jobs}
    for file in opened:
        if file.format.name not in read_too:
            # Its format says what is missing.
            parts = _parts_of(file.format, opened)
            readings.append((file.format.read(parts, {}), file.path.resolve().parent))
            read_too.add(file.format.name)
    return readings


# Programs by what they are named for, and what runs each.
_PROGRAMS = {".py": "python", ".sh": "sh", ".bash": "bash", ".R": "Rscript", ".jl": "julia"}


def _refuse_program(path: Path) -> None:
    """Refuse a program in the place of a job file, with how it becomes one."""
    runs_it = _PROGRAMS.get(path.suffix)
    if runs_it is None or not path.is_file():
        return
    train = ""
    if path.suffix == ".py":
        train = f"\nTo train a workload in it: tarmac train {quoted(path)}:workload"
    raise RequestError(
        f"{path} is a program, expected a job file",
        hint=f"Write a job file beside it, such as job.yaml:\n{job_lines(path, runs_it)}{train}",
    )


def read_the_job(
    path: Path,
    *,
    change: Callable[[Document], Document] = lambda document: document,
    environment: Mapping[str, str] | None = None,
    folders: Sequence[Path] = (),
) -> Job:
    """Read the one job of a file that is to be run here; see `read_paths`.

    Raises:
        RequestError: It cannot be read, is wrong, cannot be run here, or has none or several.
    """
    readings = read_paths([path], change=change, environment=environment, folders=folders)
    refusals = [refusal for reading, _ in readings for refusal in reading.refusals]
    if refusals:
        first, *rest = refusals
        raise RequestError(f"cannot be run here: {first}", hint="\n".join(rest) or None)
    jobs = [job for reading, _ in readings for job in reading.jobs]
    if len(jobs) != 1:
        raise RequestError(f"{path} holds {len(jobs)} jobs, and one is run")
    return jobs[0]


@dataclasses.dataclass(frozen=True)
class _Opened:
    path: Path
    document: Document
    format: Format
    is_part: bool


def _joined(opened: Sequence[_Opened]) -> list[_Opened]:
    """Return files, of which those are parts that join another one."""
    leaders = {
        file.format.name
        for file in opened
        if not file.is_part and not file.format.joins(file.document.value)
    }
    return [
        dataclasses.replace(
            file,
            is_part=file.is_part
            or (file.format.name in leaders and file.format.joins(file.document.value)),
        )
        for file in opened
    ]


def _open(path: Path, formats: Sequence[Format]) -> _Opened:
    # Once: a pipe, as of `<(...)`, is empty afterwards.
    text = read_text(path)
    loaded = (format_.load(path, text) for format_ in formats)
    document = next((each for each in loaded if each is not None), None)
    if document is None:
        document = parse_document(text, str(path))
    format_ = _format_of(document, formats)
    return _Opened(path, document, format_, format_.is_part(document.value))


def _format_of(document: Document, formats: Sequence[Format]) -> Format:
    return next(each for each in formats if each.looks_like(document.value))


def _parts_of(format_: Format, opened: Sequence[_Opened]) -> list[Document]:
    return [file.document for file in opened if file.format is format_ and file.is_part]


def _files_of(path: Path, formats: Sequence[Format]) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    errors = []
    for find in (each.find for each in formats if each.find is not None):
        try:
            return find(path)
        except RequestError as error:
            errors.append(error)
    raise errors[0]

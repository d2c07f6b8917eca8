"""Reading of files of any known format."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tarmac.documents import Document, parse_document, read_text
from tarmac.errors import RequestError, quoted
from tarmac.files import job_lines
from tarmac.formats.format import Format, Reading
from tarmac.formats.registry import all_formats
from tarmac.jobs import Job


def is_own(document: Document) -> bool:
    """Return whether a document is of Tarmac's own format."""
    return _format_of(document, all_formats()).name == "tarmac"


def read_any(document: Document) -> Reading:
    """Read a single file of any known format.

    Raises:
        RequestError: The file has no known format, or is invalid in its format.
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

    Files of one configuration, such as Batch Shipyard's, are read together: a file with jobs, and
    the other files in ``paths`` or beside it.

    Args:
        paths: Job files, or folders in a format that allows folders.
        change: Changes a job file's document before it is read.
        environment: Environment variables, usually ``os.environ``. If they name a storage
            account, Batch Shipyard's factories over files list its objects.
        folders: More folders with files that belong to a job file, besides the job file's own.
            These files override those in the job file's folder.

    Returns:
        The content of each file, with the directory that its relative paths start from.

    Raises:
        RequestError: A file cannot be read, is a program, or is invalid.
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
        # The changed document comes last: a change may override a value of another file.
        documents = [*beside, *parts, change(file.document)]
        readings.append((file.format.read(documents, environment or {}), base))
    read_too = {file.format.name for file in with_jobs}
    for file in opened:
        if file.format.name not in read_too:
            # The format reports what is missing.
            parts = _parts_of(file.format, opened)
            readings.append((file.format.read(parts, {}), file.path.resolve().parent))
            read_too.add(file.format.name)
    return readings


# Interpreters of programs by file suffix.
_PROGRAMS = {".py": "python", ".sh": "sh", ".bash": "bash", ".R": "Rscript", ".jl": "julia"}


def _refuse_program(path: Path) -> None:
    """Refuse a program given as a job file; the hint has a job file that runs it."""
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
    """Read the only job of a file to run here; see `read_paths`.

    Raises:
        RequestError: The file cannot be read, is invalid, cannot run here, or does not hold
            exactly one job.
    """
    readings = read_paths([path], change=change, environment=environment, folders=folders)
    refusals = [refusal for reading, _ in readings for refusal in reading.refusals]
    if refusals:
        first, *rest = refusals
        raise RequestError(f"cannot be run here: {first}", hint="\n".join(rest) or None)
    jobs = [job for reading, _ in readings for job in reading.jobs]
    if len(jobs) != 1:
        raise RequestError(f"{path} holds {len(jobs)} jobs, but only one can be run")
    return jobs[0]


@dataclasses.dataclass(frozen=True)
class _Opened:
    path: Path
    document: Document
    format: Format
    is_part: bool


def _joined(opened: Sequence[_Opened]) -> list[_Opened]:
    """Return the files, with each file that joins another one marked as a part."""
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
    # Read only once: a pipe, such as `<(...)`, is empty afterwards.
    text = read_text(path)
    loaded = (format_.load(path, text) for format_ in formats)
    document = next((candidate for candidate in loaded if candidate is not None), None)
    if document is None:
        document = parse_document(text, str(path))
    format_ = _format_of(document, formats)
    return _Opened(path, document, format_, format_.is_part(document.value))


def _format_of(document: Document, formats: Sequence[Format]) -> Format:
    return next(format_ for format_ in formats if format_.looks_like(document.value))


def _parts_of(format_: Format, opened: Sequence[_Opened]) -> list[Document]:
    return [file.document for file in opened if file.format is format_ and file.is_part]


def _files_of(path: Path, formats: Sequence[Format]) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    errors = []
    for find in (format_.find for format_ in formats if format_.find is not None):
        try:
            return find(path)
        except RequestError as error:
            errors.append(error)
    raise errors[0]

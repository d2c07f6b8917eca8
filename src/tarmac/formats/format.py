"""The `Format` of job files: how files are recognized, read and written.

A format is one `Format` value. Another package adds a format by an entry point of the group
``tarmac.formats`` with the format's name. `tarmac.testing.formats` tests the rules for all formats.

Example:
    >>> from tarmac.jobs import parse_job
    >>> def read(documents, environment):
    ...     (document,) = documents
    ...     return Reading("lines", [parse_job(f"{{name: x, command: {document.value['run']}}}")])
    >>> lines = Format(name="lines", title="Lines", looks_like=lambda v: "run" in v, read=read)
    >>> lines.write is None
    True
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.documents import Document
from tarmac.errors import RequestError
from tarmac.jobs import Job


class Unwritable(RequestError):  # noqa: N818 - named like the errors in `tarmac.errors`
    """The error for a job that a format cannot express.

    Args:
        message: Text for the user that names the part the format cannot express.
        hint: Text for the user with the next step. Default: none.
        path: Keys of the value in the job file, such as ``("tasks", 1, "resources", "nodes")``. A
            key that all tasks share is also looked up at the file's top level.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, path: Sequence[str | int] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = tuple(path)

    def in_file(self, document: Document) -> RequestError:
        """Return this error with file, line and column before its message."""
        path = self.path
        shared = path[2:] if path[:1] == ("tasks",) else path[1:]
        key_path = next((keys for keys in (path, shared) if keys and keys in document.places), path)
        place = document.place_of(key_path)
        where = f"{document.name}:{place.line}:{place.column}"
        return RequestError(f"{where}: {self.message}", hint=self.hint)


@dataclasses.dataclass(frozen=True)
class Reading:
    """The content of job files.

    Attributes:
        format: Name of the files' format.
        jobs: Jobs in the order of the file.
        notes: Sentences on values that Tarmac reads differently or that have no effect here.
        refusals: Reasons why the jobs cannot run here. Tarmac can still show the jobs.
        source: The job file in Tarmac's own format. None for other formats.
    """

    format: str
    jobs: Sequence[Job]
    notes: Sequence[str] = ()
    refusals: Sequence[str] = ()
    source: Document | None = None


@dataclasses.dataclass(frozen=True)
class Written:
    """Jobs written in a format.

    Attributes:
        text: Content of the file to write.
        notes: Sentences on values that the conversion left out or changed. Default: none.
    """

    text: str
    notes: Sequence[str] = ()


def _never(value: Any) -> bool:
    del value
    return False


def _not_mine(path: Path, text: str) -> Document | None:
    del path, text
    return None


def _alone(path: Path, documents: Sequence[Document]) -> Sequence[Document]:
    del path, documents
    return ()


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of job files.

    Attributes:
        name: Name of the format for ``--to``: lower-case letters, digits and hyphens.
        title: Name of the format in messages.
        looks_like: Returns whether a document's plain value is of this format. Takes the value of
            any file, and returns False if unsure.
        read: Makes jobs of one document, or of the documents of one configuration, where a later
            document overrides an earlier one. The mapping is the environment: ``os.environ`` or
            empty. Raises `RequestError` with the place of each problem.
        write: Writes jobs. The directory is the base of file patterns. Raises `Unwritable` if the
            format cannot express a job. None if Tarmac does not write the format.
        holds_several: Whether a file may hold several jobs.
        is_part: Returns whether a document of this format has no jobs of its own, and is read with
            a document that has.
        joins: Returns whether a document, if given with a document that does not join, is read
            with that document rather than for its own jobs.
        load: Reads a document from a file's path and text if the file is this format's and may
            hold secrets, so that no message quotes the text. None for any other file.
        siblings: Returns the documents of files beside a job file that belong to it, except those
            that are already read.
        find: Returns the files with jobs in a folder, or raises `RequestError`. None if Tarmac
            reads no folders of this format.
    """

    name: str
    title: str
    looks_like: Callable[[Any], bool]
    read: Callable[[Sequence[Document], Mapping[str, str]], Reading]
    write: Callable[[Sequence[Job], Path], Written] | None = None
    holds_several: bool = True
    is_part: Callable[[Any], bool] = _never
    joins: Callable[[Any], bool] = _never
    load: Callable[[Path, str], Document | None] = _not_mine
    siblings: Callable[[Path, Sequence[Document]], Sequence[Document]] = _alone
    find: Callable[[Path], Sequence[Path]] | None = None

"""What a format of job files is: how its files are known, read and written.

A format is a `Format`: one value. Those of other packages join by an entry point of the group
``tarmac.formats`` whose name is the format's, and `tarmac.testing.formats` holds them to what all
must do.

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
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tarmac.documents import Document
    from tarmac.jobs import Job


class Unwritable(RequestError):  # noqa: N818 - named as its neighbours in `tarmac.errors`
    """A format cannot say what a job does.

    Args:
        message: What the format cannot express, as the text that the user sees.
        hint: What the user can do next. Default: none.
        path: Keys of the value in the job file, such as ``("tasks", 1, "resources", "nodes")``. A
            key that all tasks share is also looked up at the file's top level.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, path: Sequence[str | int] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = tuple(path)

    def in_file(self, document: Document) -> RequestError:
        """Return this with file, line and column before its words."""
        path = self.path
        shared = path[2:] if path[:1] == ("tasks",) else path[1:]
        key_path = next((keys for keys in (path, shared) if keys and keys in document.places), path)
        place = document.place_of(key_path)
        where = f"{document.name}:{place.line}:{place.column}"
        return RequestError(f"{where}: {self.message}", hint=self.hint)


@dataclasses.dataclass(frozen=True)
class Reading:
    """What files hold.

    Attributes:
        format: The name of their format.
        jobs: In the order of the file.
        notes: What a reader should know: read otherwise, or without effect here.
        refusals: What keeps the jobs from being run here, though they can be shown.
        source: The file, where its values are the job's own; None of other systems' files.
    """

    format: str
    jobs: Sequence[Job]
    notes: Sequence[str] = ()
    refusals: Sequence[str] = ()
    source: Document | None = None


@dataclasses.dataclass(frozen=True)
class Written:
    """Jobs in a format.

    Attributes:
        text: Content of the file to write.
        notes: Sentences for the user: what the conversion left out or changed. Default: none.
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
        name: What ``--to`` calls it: lower-case letters, digits and hyphens.
        title: What people call it.
        looks_like: Whether a document's plain value is of this format. Asked of any file, so it
            takes any value, and says no where it does not know.
        read: Makes jobs of a file's document, or of the documents of several files that are one
            configuration, later ones over earlier ones. The mapping is the environment, usually
            ``os.environ`` or nothing. Raises `RequestError` with the places of all that is wrong.
        write: Writes jobs, of which patterns of files start from the directory. Raises
            `Unwritable` where the format cannot say what a job does. None where none is written.
        holds_several: Whether a file may hold several jobs.
        is_part: Whether a document, which looks like this format, has no jobs of its own and is
            read with one that has.
        joins: Whether a document is, where it is given with one that does not join, read with that
            rather than for jobs of its own.
        load: Reads a document from a file's path and its text, where it is this format's by its
            name or its words and no word of it may be in a message; None where it is not, as nearly
            always.
        siblings: Returns what belongs to a file and lies beside it, unless it is among the
            documents that are there already.
        find: Returns the files with jobs in a folder, or raises `RequestError`; None where folders
            are not read.
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

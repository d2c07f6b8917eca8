"""Inputs and outputs that have no way where a task is to run, with their place in its file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tarmac.documents import Problem, refuse, show_path
from tarmac.errors import RequestError

if TYPE_CHECKING:
    from tarmac.documents import Document, Path


class UnfitFileError(RequestError):
    """An input or output of a task that cannot come or go where the task is to run.

    Args:
        message: What is wrong with it.
        hint: Advice to the user on how the file can be reached.
        spec: The name of what the task was expanded from.
        kind: Section of the task that holds the file: ``inputs`` or ``outputs``.
        number: Among those of the task, which begin with the job's own; from 0.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str,
        spec: str,
        kind: Literal["inputs", "outputs"],
        number: int,
    ) -> None:
        super().__init__(message, hint=hint)
        self.spec = spec
        self.kind = kind
        self.number = number


def placed(error: UnfitFileError, document: Document | None) -> RequestError:
    """Return the error with file, line and column.

    Args:
        error: Error to locate in the job's file.
        document: The job's file, where its values are the job's own; None where there is none.
    """
    if document is None:
        return error
    path = _path(error, document)
    key = "from" if error.kind == "inputs" else "to"
    place = document.place_of((*path, key))
    refusal = refuse(document, [Problem(place, show_path((*path, key)), error.message)])
    return RequestError(refusal.message, hint=error.hint)


def _path(error: UnfitFileError, document: Document) -> Path:
    number = len(document.value.get(error.kind) or ())
    if error.number < number:
        return (error.kind, error.number)
    own = (error.kind, error.number - number)
    for index, task in enumerate(document.value.get("tasks") or ()):
        if task.get("name") == error.spec:
            return ("tasks", index, *own)
    return ("after_all", *own)

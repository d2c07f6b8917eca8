"""Errors for inputs and outputs that cannot be staged, with their place in the job file."""

from __future__ import annotations

from typing import Literal

from tarmac.documents import Document, Path, Problem, refuse, show_path
from tarmac.errors import RequestError


class ConversionError(RequestError):
    """An input or output that cannot be staged where the task is to run.

    Args:
        message: Description of the problem.
        hint: Advice to the user on how the file can be reached.
        spec: Name of the task before expansion.
        kind: Section of the task that holds the file: ``inputs`` or ``outputs``.
        number: Number among the task's inputs or outputs, from 0; the job's own come first.
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


def placed(error: ConversionError, document: Document | None) -> RequestError:
    """Return the error with its file, line and column.

    Args:
        error: Error to locate in the job's file.
        document: Parsed job file in Tarmac's own form; None without such a file.
    """
    if document is None:
        return error
    path = _path(error, document)
    key = "from" if error.kind == "inputs" else "to"
    place = document.place_of((*path, key))
    refusal = refuse(document, [Problem(place, show_path((*path, key)), error.message)])
    return RequestError(refusal.message, hint=error.hint)


def _path(error: ConversionError, document: Document) -> Path:
    number = len(document.value.get(error.kind) or ())
    if error.number < number:
        return (error.kind, error.number)
    own = (error.kind, error.number - number)
    for index, task in enumerate(document.value.get("tasks") or ()):
        if task.get("name") == error.spec:
            return ("tasks", index, *own)
    return ("after_all", *own)

"""The error of one field of a request, which knows where in a study's file the field is."""

from __future__ import annotations

from tarmac.errors import RequestError

__all__ = ["FieldError"]


class FieldError(RequestError):
    """A field of a request has a value that it cannot have.

    Attributes:
        path: The field's keys in a study's file, from the outermost, such as ``("space", "lr")``.
    """

    def __init__(self, path: tuple[str, ...], message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path

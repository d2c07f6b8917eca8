"""Errors of a search that its callers tell from others."""

from __future__ import annotations

from tarmac.errors import RequestError, TarmacError


class FieldError(RequestError):
    """A field of a request has a value that it cannot have.

    Attributes:
        path: The field's keys in a study's file, from the outermost, such as ``("space", "lr")``.
    """

    def __init__(self, path: tuple[str, ...], message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class HopelessError(TarmacError):
    """Nothing of a search works: it is the request that is wrong, whoever goes on with it."""

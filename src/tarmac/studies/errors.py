"""Errors of a search that callers handle separately."""

from __future__ import annotations

from tarmac.errors import RequestError, TarmacError


class FieldError(RequestError):
    """An invalid value in a field of a request.

    Attributes:
        path: Keys of the field in a study file, outermost first, such as ``("space", "lr")``.
    """

    def __init__(self, path: tuple[str, ...], message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class AllTrialsFailedError(TarmacError):
    """A search whose trainings all fail: the request is wrong, and a retry cannot help."""

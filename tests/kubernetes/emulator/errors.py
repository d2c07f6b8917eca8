"""What the API says when it does not do what it was asked, in the real server's words.

The words are those of apimachinery's ``pkg/api/errors`` and of the handlers that use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Cause(NamedTuple):
    """What is wrong with one field of an object."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class ApiError(Exception):
    """An answer that is a ``Status`` with ``status: Failure``."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or _REASONS.get(code, "")
        self.message = message
        self.details = None if details is None else dict(details)
        self.retry_after_s = retry_after_s
        if retry_after_s is not None:
            self.details = {**(details or {}), "retryAfterSeconds": retry_after_s}

    def status(self) -> dict[str, Any]:
        """Return the object that the server sends."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            status["details"] = self.details
        return status


class NoSuchPageError(Exception):
    """What is asked for is not part of the API at all: an answer in plain text."""


def not_found(qualified: str, name: str) -> ApiError:
    group, _, _ = qualified.partition(".")
    details = {"name": name, "kind": group} | _group(qualified)
    return ApiError(404, f'{qualified} "{name}" not found', details=details)


def no_such_path() -> ApiError:
    return ApiError(404, "the server could not find the requested resource", details={})


def already_exists(qualified: str, name: str) -> ApiError:
    details = {"name": name, "kind": qualified.partition(".")[0]} | _group(qualified)
    message = f'{qualified} "{name}" already exists'
    return ApiError(409, message, reason="AlreadyExists", details=details)


def conflict(qualified: str, name: str, why: str | None = None) -> ApiError:
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    details = {"name": name, "kind": qualified.partition(".")[0]} | _group(qualified)
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return ApiError(409, message, details=details)


def forbidden(qualified: str, name: str, why: str) -> ApiError:
    details = {"name": name, "kind": qualified.partition(".")[0]} | _group(qualified)
    subject = f'{qualified} "{name}"' if name else qualified
    return ApiError(403, f"{subject} is forbidden: {why}", details=details)


def invalid(qualified_kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    kind, _, group = qualified_kind.partition(".")
    listed = ", ".join(map(str, causes))
    details: dict[str, Any] = {"name": name, "kind": kind} | ({"group": group} if group else {})
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    told = listed if len(causes) == 1 else f"[{listed}]"
    return ApiError(422, f'{qualified_kind} "{name}" is invalid: {told}', details=details)


def expired(asked: int, oldest: int) -> ApiError:
    return ApiError(410, f"too old resource version: {asked} ({oldest})")


def too_large(most: int) -> ApiError:
    return ApiError(413, f"Request entity too large: limit is {most}")


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized")


def _group(qualified: str) -> dict[str, str]:
    group = qualified.partition(".")[2]
    return {"group": group} if group else {}

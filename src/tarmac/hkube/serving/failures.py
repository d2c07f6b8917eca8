"""An exception as the ``errorMessage`` that HKube shows: type, message, cause, what to do."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.files import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["describe"]

# As HKube's own wrappers have it.
_CODE = "Failed"

_MOST_CAUSES = 5
_HIDDEN = "(hidden)"
_SECRET = ("SECRET", "TOKEN", "PASSWORD", "PASSWD", "ACCESS_KEY", "API_KEY", "CREDENTIAL")
# A shorter value would be found in words that hide nothing.
_LEAST_SECRET = 6


def describe(error: BaseException, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return what ``errorMessage`` carries as ``error``: ``code``, ``message``, ``details``.

    Args:
        error: What ended a task.
        environment: Whose secrets are taken out; usually ``os.environ``.
    """
    message = ", caused by ".join(_in_words(each) for each in _chain(error))
    if isinstance(error, TarmacError):
        details = error.hint or ""
    else:
        details = "".join(traceback.format_exception(error))
    found = {"code": _CODE, "message": message} | ({"details": details} if details else {})
    return {key: _without_secrets(text, environment) for key, text in found.items()}


def _in_words(error: BaseException) -> str:
    text = error.message if isinstance(error, TarmacError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, as Python's own traceback has it."""
    current: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if current is None:
            return
        yield current
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context


def _without_secrets(text: str, environment: Mapping[str, str]) -> str:
    # The longest first: one that begins with another is hidden whole.
    for name, value in sorted(environment.items(), key=lambda item: -len(item[1])):
        is_secret = any(word in name.upper() for word in _SECRET)
        if is_secret and len(value) >= _LEAST_SECRET:
            text = text.replace(value, _HIDDEN)
    return without_password(text)

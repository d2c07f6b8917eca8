"""An exception as the ``errorMessage`` that HKube shows: type, message, cause and advice."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator, Mapping

from tarmac.errors import TarmacError
from tarmac.files import without_password
from tarmac.hkube.serving.request import OPTIONS
from tarmac.masking import remember_environment, without_known

# The code that HKube's own wrappers send.
_CODE = "Failed"

_MAX_CAUSES = 5

# "--devices cpu", and "--output" without a value.
_OPTION = re.compile(r"--([a-z][a-z-]*)(?:[ =]([a-z0-9][\w:./-]*[\w/]))?")
_SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")
_COMMAND = re.compile(r"(?:^|[\s`])tarmac [a-z]")


def describe(error: BaseException, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the ``error`` of an ``errorMessage``: ``code``, ``message``, ``details``.

    Args:
        error: Exception that ended a task.
        environment: Environment whose secrets are redacted, usually ``os.environ``.
    """
    words: list[str] = []
    for cause in _chain(error):
        # An error and its causes often have the same message.
        if not (words and str(cause) and str(cause) in words[-1]):
            words.append(_in_words(cause))
    message = ", caused by ".join(dict.fromkeys(words))
    if isinstance(error, TarmacError):
        details = _as_inputs(error.hint or "")
    else:
        details = "".join(traceback.format_exception(error))
    fields = {"code": _CODE, "message": message} | ({"details": details} if details else {})
    return {key: _without_secrets(text, environment) for key, text in fields.items()}


def _as_inputs(hint: str) -> str:
    """Turn command-line options in a hint into fields of an algorithm's input.

    Sentences with commands are left out, because the reader has no command line here.
    """

    def named(option: re.Match[str]) -> str:
        field = option[1].replace("-", "_")
        if field not in (*OPTIONS, "output"):
            return option.group()
        return f'"{field}"' + (f": {json.dumps(option[2])}" if option[2] else "")

    sentences = [
        " ".join(part for part in _SENTENCE_END.split(line) if not _COMMAND.search(part))
        for line in hint.splitlines()
    ]
    return _OPTION.sub(named, "\n".join(filter(None, sentences)))


def _in_words(error: BaseException) -> str:
    text = error.message if isinstance(error, TarmacError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, in the order of Python's traceback."""
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        yield current
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context


def _without_secrets(text: str, environment: Mapping[str, str]) -> str:
    remember_environment(environment)
    return without_password(without_known(text))

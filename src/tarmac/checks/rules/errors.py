"""Errors of CUDA, its libraries, NCCL and HIP: one table, and the forms in which they are printed.

``errors.toml`` in this folder has the errors, and the frames in which PyTorch, JAX, TensorFlow,
NCCL and others print their number, name or words. Each API gives a few patterns, which find any of
its errors in any of its frames.

Example:
    >>> error = find_error("cudaErrorSystemNotReady")
    >>> error.code, error.words
    ('fabric-manager', 'system not yet initialized')
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

# Stands in a frame for the pattern of the API's function names.
_CALLS = "<calls>"

# Name of the regex group with the printed number, name or words.
_VALUE = "value"

# A number behind the words. TensorFlow calls errors unknown for which the driver's library, which
# is missing on a machine without a GPU, has no name.
_NUMBER_BEHIND = re.compile(r" \((\d{1,4})\)")


class ApiError(BaseModel):
    """An error of an API.

    Attributes:
        number: Number of the error in the API; None for an entry of several errors.
        names: Names of the error in the runtime and the driver, and errors of the same meaning.
        words: Description that the API's own function returns.
        code: Code of the failure that it shows; empty for the API's code.
        bare: Whether the words identify the error without a frame.
        unless: Text that, anywhere before the error, means that there is no failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int | None = None
    names: tuple[str, ...]
    words: str = ""
    code: str = ""
    bare: bool = False
    unless: str = ""

    @property
    def text(self) -> str:
        """The number, name and words of the error, as a finding shows them."""
        number = "" if self.number is None else f"{self.number}, "
        return f"error {number}{self.names[0]}" + (f": {self.words}" if self.words else "")


class Api(BaseModel):
    """An API, its errors, and the frames in which programs print them.

    Attributes:
        title: Name of the API, such as ``CUDA`` or ``NCCL``.
        code: Code of the failure that an error without its own code shows.
        source: URL of the list of the API's errors.
        not_after: Texts before an error that show it to be another API's.
        calls: Pattern of the API's function names.
        names: Pattern of the API's error names.
        words_after: Patterns of the text before an error's words.
        number_after: Patterns of the text before an error's number.
        errors: All known errors of the API.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    code: str
    source: str
    not_after: tuple[str, ...] = ()
    calls: str = ""
    names: str
    words_after: tuple[str, ...] = ()
    number_after: tuple[str, ...] = ()
    errors: tuple[ApiError, ...]


class ErrorForm:
    """One printed form of an API's errors: their names, their words or their numbers.

    Attributes:
        source: Pattern of the form. Its group ``value`` identifies the error. A group ``stated`` or
            ``stated_so`` must match the error's number.
        must_hold: Pattern that is part of every match, from which literals are taken.
    """

    def __init__(
        self, api: Api, source: str, must_hold: str, errors: Mapping[str, ApiError]
    ) -> None:
        self.source = source
        self.must_hold = must_hold
        self._api = api
        self._errors = errors

    def shown_by(self, match: re.Match[str]) -> tuple[str, str] | None:
        """Return the failure's code and the error in words; None where a match shows no failure."""
        value = " ".join(match[_VALUE].split()).lower()
        error = self._errors.get(value)
        groups = match.groupdict()
        behind = _NUMBER_BEHIND.match(match.string, match.end(_VALUE))
        stated = groups.get("stated") or groups.get("stated_so") or (behind and behind[1])
        if error is None or (stated and error.number is not None and int(stated) != error.number):
            return None
        before = match.string[: match.start(_VALUE)].lower()
        is_none = error.unless and error.unless.lower() in before
        if is_none or before.endswith(self._api.not_after or "\0"):
            return None
        return error.code or self._api.code, error.text


@functools.cache
def read_apis() -> Mapping[str, Api]:
    """Return all APIs by name."""
    text = Path(__file__).with_name("errors.toml").read_text(encoding="utf-8")
    return {name: Api(**fields) for name, fields in tomllib.loads(text).items()}


def forms_of(api: Api) -> Iterator[ErrorForm]:
    """Yield the printed forms of an API's errors."""
    names = {name.lower(): error for error in api.errors for name in error.names}
    yield ErrorForm(api, rf"\b(?P<{_VALUE}>{api.names})\b", api.names, names)
    words = {error.words.lower(): error for error in api.errors if error.words}
    if api.words_after:
        yield _in_words(f"(?:{_any_of(api.words_after, api.calls)})", words, api)
    bare = {text: error for text, error in words.items() if error.bare}
    if bare:
        yield _in_words("", bare, api)
    if api.number_after:
        numbers = {str(error.number): error for error in api.errors if error.number is not None}
        before = _any_of(api.number_after, api.calls)
        source = rf"(?:{before})(?P<{_VALUE}>\d{{1,4}})\b(?![.\w])"
        yield ErrorForm(api, source, f"(?:{before})", numbers)


def _any_of(frames: tuple[str, ...], calls: str) -> str:
    return "|".join(frame.replace(_CALLS, calls) for frame in frames)


def _in_words(before: str, words: Mapping[str, ApiError], api: Api) -> ErrorForm:
    # Longest first, as some texts are prefixes of others.
    texts = "|".join(re.escape(text).replace(r"\ ", " ") for text in sorted(words, key=_by_length))
    return ErrorForm(api, rf"{before}(?P<{_VALUE}>{texts})(?![\w-])", texts, words)


def _by_length(text: str) -> tuple[int, str]:
    return (-len(text), text)


def find_error(name: str) -> ApiError | None:
    """Return an error by one of its names; None for an unknown name."""
    every = (error for api in read_apis().values() for error in api.errors)
    return next((error for error in every if name in error.names), None)


@functools.cache
def printed_forms(code: str) -> tuple[str, ...]:
    """Return the printed texts of the errors that show a failure.

    Args:
        code: Code of the failure in the catalogue.
    """
    forms: dict[str, None] = {}
    for api in read_apis().values():
        title = api.title if api.words_after else ""
        for error in api.errors:
            if (error.code or api.code) == code:
                forms |= {f"{title} error: {error.words}": None} if error.words and title else {}
                forms |= dict.fromkeys(error.names if error.code else error.names[:1])
    return tuple(forms)

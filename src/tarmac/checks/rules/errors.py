"""Errors of CUDA, its libraries, NCCL and HIP: one table, and all forms in which programs print it.

`errors.toml` beside this file has the errors, and the frames in which PyTorch, JAX, TensorFlow,
NCCL and others print a number, a name or words. Each API makes a few patterns, which find any of
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
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# In a frame, the name of one of the API's functions.
_CALLS = "<calls>"

# Of a form, the group that holds what is looked up.
_VALUE = "value"


class ApiError(BaseModel):
    """An error of an API.

    Attributes:
        number: The API's; None where several stand together.
        names: What the runtime and the driver call it, and errors that mean the same.
        words: What the API's own function returns for it.
        code: The failure of the catalogue that it shows; the API's where it is empty.
        bare: Whether its words say enough without a frame.
        unless: What stands anywhere before it where it is no failure.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int | None = None
    names: tuple[str, ...]
    words: str = ""
    code: str = ""
    bare: bool = False
    unless: str = ""

    @property
    def said(self) -> str:
        """Number, name and words, as a finding shows them."""
        number = "" if self.number is None else f"{self.number}, "
        return f"error {number}{self.names[0]}" + (f": {self.words}" if self.words else "")


class Api(BaseModel):
    """An API, its errors, and the frames in which programs print them.

    Attributes:
        title: Name of the API, such as ``CUDA`` or ``NCCL``.
        code: The failure that an error shows where nothing better is known.
        source: Who says which errors there are.
        not_after: What stands before words that are another API's.
        calls: A pattern of its functions' names.
        names: A pattern of its errors' names.
        words_after: Patterns of what stands before an error's words.
        number_after: Patterns of what stands before an error's number.
        errors: All that are known.
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
    """One form of an API's errors: their names, their words or their numbers.

    Attributes:
        source: A pattern; what is looked up is its group ``value``. Where it has a group
            ``stated``, that is the error's number, and must be.
        must_hold: A pattern of which every match has one; what is looked for first.
    """

    def __init__(
        self, api: Api, source: str, must_hold: str, errors: Mapping[str, ApiError]
    ) -> None:
        self.source = source
        self.must_hold = must_hold
        self._api = api
        self._errors = errors

    def shown_by(self, match: re.Match[str]) -> tuple[str, str] | None:
        """Return the code of the failure that a match shows, and the error in words."""
        value = " ".join(match[_VALUE].split()).lower()
        error = self._errors.get(value)
        groups = match.groupdict()
        stated = groups.get("stated") or groups.get("stated_so")
        if error is None or (stated is not None and int(stated) != error.number):
            return None
        before = match.string[: match.start(_VALUE)].lower()
        is_none = error.unless and error.unless.lower() in before
        if is_none or before.endswith(self._api.not_after or "\0"):
            return None
        return error.code or self._api.code, error.said


@functools.cache
def read_apis() -> Mapping[str, Api]:
    """Return all APIs by name."""
    text = Path(__file__).with_name("errors.toml").read_text(encoding="utf-8")
    return {name: Api(**fields) for name, fields in tomllib.loads(text).items()}


def forms_of(api: Api) -> Iterator[ErrorForm]:
    """Yield the forms in which an API's errors are printed."""
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
    # The longest first, as some begin with others.
    texts = "|".join(re.escape(text).replace(r"\ ", " ") for text in sorted(words, key=_by_length))
    return ErrorForm(api, rf"{before}(?P<{_VALUE}>{texts})(?![\w-])", texts, words)


def _by_length(text: str) -> tuple[int, str]:
    return (-len(text), text)


def find_error(name: str) -> ApiError | None:
    """Return an error by one of its names; None where none has it."""
    every = (error for api in read_apis().values() for error in api.errors)
    return next((error for error in every if name in error.names), None)


@functools.cache
def printed_forms(code: str) -> tuple[str, ...]:
    """Return how errors that show a failure are printed, as somebody meets them.

    Args:
        code: The failure's, in the catalogue.
    """
    forms: dict[str, None] = {}
    for api in read_apis().values():
        title = api.title if api.words_after else ""
        for error in api.errors:
            if (error.code or api.code) == code:
                forms |= {f"{title} error: {error.words}": None} if error.words and title else {}
                forms |= dict.fromkeys(error.names if error.code else error.names[:1])
    return tuple(forms)

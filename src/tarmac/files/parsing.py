"""Checks of JSON from other writers: any content gives a value, or a ValueError with a reason.

Example:
    >>> parse_json(b'{"event": "started"}')
    {'event': 'started'}
    >>> Shape({"event": "text"}, {"at": "seconds"}).problem_of({"event": "ended", "at": "2"})
    "at is '2', expected seconds"
"""

from __future__ import annotations

import dataclasses
import json
import os
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

# Upper limit of seconds: about 3,000 years, which `datetime` still supports.
_MAX_SPAN_S = 1e11

# Limit of 64-bit whole numbers; JSON allows larger ones, which Python cannot convert to float.
_MAX_WHOLE = 2**63

# Linux's limit of a path.
_MAX_PATH_BYTES = 4096


def parse_json(content: bytes | str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: The text is no JSON or no UTF-8, or is too large or too deeply nested.
    """
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except MemoryError:
        raise ValueError("it is too large for this machine's memory") from None
    except ValueError as error:
        if "digits" in str(error):
            # Python's own message names a function of Python.
            raise ValueError("a number in it has too many digits") from None
        raise


@dataclasses.dataclass(frozen=True)
class Shape:
    """The fields of an object, such as a line of a journal; unlisted fields are allowed.

    The type of a field is ``text``, ``texts`` (a list of texts), ``number`` (a float may be NaN or
    infinite, as the loss of a training that diverged), ``numbers``, ``whole number``, ``boolean``,
    ``seconds``, ``object`` or ``path within the run``; `` or null`` may follow.

    Attributes:
        needed: Types of required fields, by name.
        others: Types of optional fields, by name.
    """

    needed: Mapping[str, str]
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def checked(self, value: Any) -> dict[str, Any]:
        """Check that a value has this shape, and return the value.

        Raises:
            ValueError: The value has another shape.
        """
        if problem := self.problem_of(value):
            raise ValueError(problem)
        fields: dict[str, Any] = value
        return fields

    def problem_of(self, value: Any) -> str | None:
        """Return why a value does not have this shape; None if it does."""
        if not isinstance(value, dict):
            return f"it is {reprlib.repr(value)}, expected an object"
        missing = [key for key in self.needed if key not in value]
        if missing:
            return f"it has no {', '.join(missing)}"
        for fields in (self.needed, self.others):
            for key, kind in fields.items():
                if key in value and not _fits(value[key], kind):
                    return f"{key} is {reprlib.repr(value[key])}, expected {kind}"
        return None


def _fits(value: Any, kind: str) -> bool:
    bare = kind.removesuffix(" or null")
    return (bare != kind and value is None) or _KINDS[bare](value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < _MAX_WHOLE


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_WHOLE


def _is_place(value: Any) -> bool:
    if not isinstance(value, str) or value.startswith("/") or "\0" in value:
        return False
    try:
        size = len(os.fsencode(value))
    except UnicodeEncodeError:
        return False
    return size < _MAX_PATH_BYTES and ".." not in value.split("/")


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "texts": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "object": lambda value: isinstance(value, dict),
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "numbers": lambda value: isinstance(value, list) and all(map(_is_number, value)),
    "whole number": _is_whole,
    "seconds": lambda value: _is_number(value) and abs(value) < _MAX_SPAN_S,
    "path within the run": _is_place,
}

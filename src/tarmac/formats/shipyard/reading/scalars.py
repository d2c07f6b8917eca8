"""Scalars without quotes as YAML 1.2 reads them, which is how Batch Shipyard does.

YAML 1.1 takes ``12:00:00`` for 43,200, ``yes`` for true and ``1e-3`` for a text. The rules are
those of the parser that Batch Shipyard uses, ruamel.yaml, for YAML 1.2.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from tarmac.jobs.foreign import Document

__all__ = ["Date", "read_again", "read_scalar"]

_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_INT = re.compile(r"[-+]?(?:0b_*[01][01_]*|0o_*[0-7][0-7_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|[0-9_]+)")
_BASES = {"0b": 2, "0o": 8, "0x": 16}
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|\.[0-9_]*[0-9][0-9_]*(?:[eE][-+][0-9]+)?)"
)
_NO_NUMBER = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_DATE = re.compile(
    r"(\d{4}-\d{2}-\d{2})"
    r"|\d{4}-\d{1,2}-\d{1,2}(?:[Tt]|[ \t]+)\d{1,2}:\d{2}:\d{2}(?:\.\d*)?"
    r"(?:[ \t]*(?:Z|[-+]\d{1,2}(?::\d{2})?))?"
)

# Python writes no more digits than 4,300.
_MOST_BITS = 14_000


class Date(str):
    """A date as it is written, which Batch Shipyard takes for no text."""

    __slots__ = ()


def read_again(document: Document) -> Document:
    """Return a document with its scalars read by YAML 1.2; what has been read so stays as it is.

    Raises:
        RequestError: A number has more digits than can be shown.
    """
    return dataclasses.replace(document, value=_value(document, document.value, ()), texts={})


def _value(document: Document, value: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _value(document, part, (*path, key)) for key, part in value.items()}
    if isinstance(value, list):
        return [_value(document, part, (*path, number)) for number, part in enumerate(value)]
    text = document.texts.get(path)
    try:
        found = value if text is None else read_scalar(text)
        is_long = isinstance(found, int) and found.bit_length() > _MOST_BITS
    except ValueError:
        is_long = True
    if is_long:
        place = document.place_of(path)
        raise RequestError(
            f"{document.name}:{place.line}:{place.column}: a number of more than 4,000 digits",
            hint="Quote it where it is a text.",
        )
    return found


def read_scalar(text: str) -> Any:
    """Read a scalar without quotes.

    Raises:
        ValueError: It is a number with more digits than Python reads.
    """
    if text in _BOOLS:
        return _BOOLS[text]
    if text in _NULLS:
        return None
    if any(character.isdigit() for character in text) and text[0] in "-+.0123456789":
        return _number(text)
    if _NO_NUMBER.fullmatch(text):
        return float(text.lower().replace(".", "", 1))
    return text


def _number(text: str) -> Any:
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    if _INT.fullmatch(text):
        plain = text.replace("_", "").lstrip("+-")
        base = _BASES.get(plain[:2], 10)
        number = int(plain[2:] if base != 10 else plain, base)
        return -number if text[0] == "-" else number
    if _DATE.fullmatch(text):
        # Batch Shipyard takes none where it expects a text.
        return Date(text)
    return text

"""Reads values of which no line is ever said, such as a program's input, which may be large."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tarmac.documents.parsing import read_document
from tarmac.errors import RequestError

if TYPE_CHECKING:
    import pathlib

__all__ = ["read_plain"]


def read_plain(path: pathlib.Path) -> Any:
    """Read the values of a JSON file of any size, or of a YAML file of at most 16 MiB.

    Raises:
        RequestError: It cannot be read, or is neither; the message has its line and column.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        value = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise RequestError(f"{path}: nested too deeply") from error
    except ValueError as error:
        if path.suffix.lower() == ".json" and isinstance(error, json.JSONDecodeError):
            where = f"{path}:{error.lineno}:{error.colno}"
            raise RequestError(f"{where}: is no JSON: {error.msg}") from error
        # YAML, or said there in words.
        return read_document(path).value
    if b"\\ud" in content or b"\\uD" in content:
        _check_texts(path, value)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _check_texts(path: pathlib.Path, value: Any) -> None:
    """Refuse halves of characters, which no file and no socket can carry."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RequestError(f"{path}: half of a character is there, \\ud800 to \\udfff") from error

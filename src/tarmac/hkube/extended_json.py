"""Plain values as JSON, with MongoDB's Extended JSON, version 2, for values that JSON lacks.

Source: https://www.mongodb.com/docs/manual/reference/mongodb-extended-json/
"""

from __future__ import annotations

import base64
import io
import json
import math
from pathlib import Path
from typing import IO, Any

from tarmac.files import atomic_writer


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return a value as JSON; bytes and non-finite numbers are in Extended JSON, version 2.

    Example:
        >>> to_json([b"ab", float("nan")])
        '[{"$binary": {"base64": "YWI=", "subType": "00"}}, {"$numberDouble": "NaN"}]'
    """
    text = io.StringIO()
    _write(value, text, indent)
    return text.getvalue()


def write_json(path: Path, value: Any) -> None:
    """Write a value to a file atomically, as indented JSON; see `to_json`.

    Raises:
        StorageError: The file cannot be written.
    """
    with atomic_writer(path) as file:
        text = io.TextIOWrapper(file, encoding="ascii", newline="\n")
        _write(value, text, 2)
        text.write("\n")
        # Without detach, the wrapper would close the file of `atomic_writer`.
        text.detach()


def _write(value: Any, file: IO[str], indent: int | None) -> None:
    start = file.tell()
    try:
        _write_parts(value, file, indent)
    except ValueError:
        file.seek(start)
        file.truncate()
        _write_parts(_finite(value), file, indent)


def _write_parts(value: Any, file: IO[str], indent: int | None) -> None:
    """Write a value part by part: a list of all parts takes many times the text's memory."""
    file.writelines(
        json.JSONEncoder(indent=indent, default=_binary, allow_nan=False).iterencode(value)
    )


def _binary(value: Any) -> Any:
    if isinstance(value, bytes):
        text = base64.b64encode(value).decode()
        return {"$binary": {"base64": text, "subType": "00"}}
    raise TypeError(f"{type(value).__name__} is no plain value")


def _finite(value: Any) -> Any:
    """Return a value with Extended JSON in place of non-finite numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return {"$numberDouble": name}
    # No comprehensions: each would double the depth of Python's recursion.
    if isinstance(value, list | tuple):
        parts: list[Any] = []
        for part in value:
            parts.append(_finite(part))  # noqa: PERF401 - as above
        return parts
    if isinstance(value, dict):
        items: dict[Any, Any] = {}
        for key, part in value.items():
            items[key] = _finite(part)
        return items
    return value

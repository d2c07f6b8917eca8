"""TOML files read as plain values with their places.

The standard library's parser keeps no places. So the text is parsed up to each line, and a value's
place is in the first line after which the value exists.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from tarmac.documents.document import Document, Path, Place
from tarmac.documents.parsing import read_text
from tarmac.errors import RequestError

# Each line needs a parse of all lines before it.
_MAX_LINES = 2000


def read_toml(path: pathlib.Path) -> Document:
    """Read a TOML file.

    Raises:
        RequestError: The file cannot be read, or is no TOML. The message has the line and column.
    """
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, name: str) -> Document:
    """Read a document from its text; see `read_toml`.

    Args:
        text: TOML text of the whole document, at most 2,000 lines.
        name: Name of the file, for error messages.
    """
    lines = text.splitlines()
    if len(lines) > _MAX_LINES:
        raise RequestError(f"{name}: {len(lines):,} lines, expected at most {_MAX_LINES:,}")
    try:
        value = tomllib.loads(text)
    except RecursionError as error:
        raise RequestError(f"{name}: nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise _refused(name, str(error), lines) from error
    except ValueError as error:
        # Python's message names a function of Python.
        raise RequestError(f"{name}: a number in it has too many digits") from error
    return Document(name, value, _places(lines))


def _refused(name: str, message: str, lines: list[str]) -> RequestError:
    end = f"at line {len(lines)}, column {len(lines[-1]) + 1}" if lines else ""
    message = message.replace("at end of document", end)
    match = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
    if match is None:
        return RequestError(f"{name}: {message}")
    return RequestError(f"{name}:{match[2]}:{match[3]}: {match[1][0].lower()}{match[1][1:]}")


def _places(lines: list[str]) -> dict[Path, Place]:
    places: dict[Path, Place] = {(): Place(1, 1)}
    first = 0
    for number in range(1, len(lines) + 1):
        try:
            value = tomllib.loads("\n".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            # A value continues in the next line.
            continue
        for path in _paths(value, ()):
            if path not in places:
                places[path] = _place(lines[first:number], first, path)
        first = number
    return places


def _place(lines: list[str], before: int, path: Path) -> Place:
    """Return the place of a path's last key within lines; an item has the place of its list."""
    keys = [part for part in path if isinstance(part, str)]
    # Anywhere in a line, since an inline table has several keys on a line.
    for number, line in enumerate(lines):
        match = re.search(rf"(?<![\w-]){re.escape(keys[-1])}(?![\w-])", line) if keys else None
        if match is not None:
            return Place(before + number + 1, match.start() + 1)
    return Place(before + 1, len(lines[0]) - len(lines[0].lstrip()) + 1)


def _paths(value: Any, path: Path) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _paths(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _paths(part, (*path, index))

"""A file's plain values, with the place of each value in the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

# JSON Schema for keys that hold only anchors, as in files of Compose and OpenAPI.
EXTENSIONS: Final[dict[str, Any]] = {"patternProperties": {"^x-": True}}

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A line and a column of a file, both from 1."""

    line: int
    column: int


@dataclasses.dataclass(frozen=True)
class Document:
    """A file's values and their places.

    Attributes:
        name: Name of the file, for messages.
        value: Plain values: dictionaries, lists, texts, numbers, booleans, None.
        places: Places of the values by path, as tuples of keys and indices.
        texts: Source text of each unquoted, untagged number or boolean, by path.
        dates: Paths of YAML dates without quotes and tags. Their values are the texts in the file.
        source: Text of the file, to which the places refer. Empty for values without a file.
    """

    name: str
    value: Any
    places: Mapping[Path, Place] = dataclasses.field(default_factory=dict)
    texts: Mapping[Path, str] = dataclasses.field(default_factory=dict)
    dates: AbstractSet[Path] = frozenset()
    source: str = ""

    def place_of(self, path: Sequence[str | int]) -> Place:
        """Return the place of a value, or of its nearest container if the value is missing."""
        for length in range(len(path), -1, -1):
            place = self.places.get(tuple(path[:length]))
            if place is not None:
                return place
        return Place(1, 1)

    def place_within(self, path: Path, part: str) -> Place:
        """Return the place of a part of a text, or of the text's key if the part is not found.

        Args:
            path: Path of the text in the document, as keys and indices.
            part: Substring to find, as written in the file.
        """
        start = self.place_of(path)
        later = (place for key, place in self.places.items() if key[: len(path)] != path)
        end = min((place for place in later if place > start), default=None)
        lines = self.source.splitlines()[start.line - 1 : end.line if end else None]
        for number, line in enumerate(lines, start=start.line):
            first = start.column - 1 if number == start.line else 0
            last = end.column - 1 if end is not None and number == end.line else None
            if (column := line[:last].find(part, first)) >= 0:
                return Place(number, column + 1)
        return start


def without_extensions(value: Any) -> Any:
    """Return a mapping without keys that begin with ``x-``, and any other value unchanged."""
    if not isinstance(value, dict):
        return value
    return {key: part for key, part in value.items() if not str(key).startswith("x-")}


def show_path(path: Sequence[str | int]) -> str:
    """Return a path as text for messages: ``tasks[1].resources.gpus``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text

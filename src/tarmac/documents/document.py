"""A file's plain values, which remember where in the file each came from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

__all__ = ["Document", "Path", "Place", "show_path"]

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A line and a column of a file, both from 1."""

    line: int
    column: int


@dataclasses.dataclass(frozen=True)
class Document:
    """A file's values, and where they are.

    Attributes:
        name: The file, for messages.
        value: Plain values: dictionaries, lists, texts, numbers, booleans, None.
        places: From paths, as tuples of keys and indices, to places.
        texts: Of numbers and booleans without quotes or tags, by path, as they are written.
        dates: Paths of what YAML takes for dates, without quotes or tags; the values are the texts
            that are written.
    """

    name: str
    value: Any
    places: Mapping[Path, Place] = dataclasses.field(default_factory=dict)
    texts: Mapping[Path, str] = dataclasses.field(default_factory=dict)
    dates: AbstractSet[Path] = frozenset()

    def place_of(self, path: Sequence[str | int]) -> Place:
        """Return the place of a value, or of what would hold it."""
        for length in range(len(path), -1, -1):
            found = self.places.get(tuple(path[:length]))
            if found is not None:
                return found
        return Place(1, 1)


def show_path(path: Sequence[str | int]) -> str:
    """Write a path as people do: ``tasks[1].resources.gpus``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text

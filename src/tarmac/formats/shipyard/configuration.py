"""Several Batch Shipyard files as one configuration, with the place of each value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.documents import Place, show_path

SECTIONS = ("job_specifications", "pool_specification", "batch_shipyard", "global_resources")

# The top-level key of credentials, and all that messages show of them.
CREDENTIALS = "credentials"


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Several files merged into one configuration.

    Attributes:
        names: File names, in merge order: a later file overrides an earlier one.
        value: Merged content of the files, as plain values.
        places: File name and place of each value, by its path.
        with_credentials: Names of the files that hold credentials.
    """

    names: Sequence[str]
    value: dict[str, Any]
    places: Mapping[tuple[str | int, ...], tuple[str, Place]]
    with_credentials: frozenset[str] = frozenset()

    def show(self, path: Sequence[str | int]) -> str:
        """Return a path for a message, without the keys of possible credentials."""
        if path[:1] == (CREDENTIALS,):
            return CREDENTIALS
        name, _ = self.place_of(path)
        is_hidden = len(path) == 1 and path[0] not in SECTIONS and name in self.with_credentials
        return "" if is_hidden else show_path(path)

    def place_of(self, path: Sequence[str | int]) -> tuple[str, Place]:
        """Return the file and the place of a value, or of the nearest value above it."""
        for length in range(len(path), 0, -1):
            location = self.places.get(tuple(path[:length]))
            if location is not None:
                return location
        return self.names[-1], Place(1, 1)

"""Batch Shipyard's patterns of names: those of ``fnmatch``, where ``*`` matches ``/`` too."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(r"\[!?\]?[^]]*\]|.", re.DOTALL)


def after(pattern: str, start: str) -> list[str]:
    """Return patterns of what follows ``start`` in the names that a pattern matches.

    Example:
        >>> after("wd/*.pt", "wd/"), after("*/x", "wd/"), after("logs/*", "wd/")
        (['*.pt'], ['*/x', 'x'], [])
    """
    left = [pattern]
    for character in start:
        left = [*dict.fromkeys(rest for part in left for rest in _step(part, character))]
    return [rest for rest in left if rest]


def _step(pattern: str, character: str) -> Iterator[str]:
    """Yield what is left of a pattern when a name's first character has been matched."""
    token = _TOKEN.match(pattern)
    if token is None:
        return
    rest = pattern[token.end() :]
    if token[0] == "*":
        yield pattern
        yield from _step(rest, character)
    elif fnmatchcase(character, token[0]):
        yield rest

"""Batch Shipyard's name patterns, which are ``fnmatch`` patterns: ``*`` also matches ``/``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

_TOKEN = re.compile(r"\[!?\]?[^]]*\]|.", re.DOTALL)


def after(pattern: str, start: str) -> list[str]:
    """Return patterns for the rest of a pattern's names after ``start``.

    Example:
        >>> after("wd/*.pt", "wd/"), after("*/x", "wd/"), after("logs/*", "wd/")
        (['*.pt'], ['*/x', 'x'], [])
    """
    left = [pattern]
    for character in start:
        left = [*dict.fromkeys(rest for part in left for rest in _step(part, character))]
    return [rest for rest in left if rest]


def _step(pattern: str, character: str) -> Iterator[str]:
    """Yield the rests of a pattern after a match of a name's first character."""
    token = _TOKEN.match(pattern)
    if token is None:
        return
    rest = pattern[token.end() :]
    if token[0] == "*":
        yield pattern
        yield from _step(rest, character)
    elif fnmatchcase(character, token[0]):
        yield rest

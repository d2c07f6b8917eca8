"""The catalogue's patterns, tried only where one of their literals stands."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.literals import required_literals, spans_lines

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Pattern", "all_patterns", "find_in"]

# A space of a pattern, where a message may be broken between two lines. Bounded, as a line of tabs
# would else be looked at as often as it has tabs.
_SPACE = r"(?: |[ \t]{0,40}\n[ \t]{0,40})"

# A class, what is escaped, or a space: a space within one of the first two is no place to break.
_TOKEN = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.| ")


class Pattern:
    """A pattern of what drivers and frameworks print.

    Attributes:
        code: The failure that it shows.
        source: As it stands in the catalogue.
    """

    def __init__(self, code: str, source: str) -> None:
        self.code = code
        self.source = source

    @functools.cached_property
    def literals(self) -> tuple[str, ...]:
        """Of these, in lower case, every match holds at least one."""
        return required_literals(self.source)

    @functools.cached_property
    def spans_lines(self) -> bool:
        """Whether it joins what is many lines apart."""
        return spans_lines(self.source)

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first match."""
        return self.regex.search(text)

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """The pattern, whose spaces match a break between lines too."""
        broken = _TOKEN.sub(lambda token: _SPACE if token[0] == " " else token[0], self.source)
        # By ASCII: no other letter is one of these in lower case, as K (the unit kelvin) is k.
        return re.compile(broken, re.ASCII)


@functools.cache
def all_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the whole catalogue, in its order."""
    return tuple(
        Pattern(failure.code, source)
        for failure in read_catalogue().values()
        for source in failure.text
    )


def find_in(text: str) -> Mapping[str, str]:
    """Return the line of a text that shows each failure, by the failure's code."""
    found: dict[str, str] = {}
    lower = text.lower()
    for pattern in all_patterns():
        if pattern.code in found or not any(literal in lower for literal in pattern.literals):
            continue
        match = pattern.search(text)
        if match:
            start = text.rfind("\n", 0, match.end() - 1) + 1
            stop = text.find("\n", match.end())
            found[pattern.code] = text[start : None if stop < 0 else stop].strip()
    return found

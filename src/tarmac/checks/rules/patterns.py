"""The catalogue's patterns, tried only where one of their literals occurs."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.errors import ErrorForm, forms_of, read_apis
from tarmac.checks.rules.literals import required_literals, spans_lines

_T = TypeVar("_T")

# Errors of one form to report from one line: a line that repeats an error has no new information.
_MAX_ERRORS = 4

# Replaces a space of a pattern, as a message may be broken between two lines there. The bound
# prevents quadratic time on a line of tabs.
_SPACE = r"(?: |[ \t]{0,40}\n[ \t]{0,40})"

# A character class, an escape, or a space: only a space outside of the first two may be a break.
_TOKEN = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.| ")


class Sight(NamedTuple):
    """A failure that a text shows.

    Attributes:
        code: Code of the failure in the catalogue.
        match: Match of the pattern in the text.
        words: Meaning of a number or a name in the match, in words; empty without one.
    """

    code: str
    match: re.Match[str]
    words: str = ""


class Pattern:
    """A pattern of messages of drivers and frameworks.

    Attributes:
        code: Code of the failure that a match shows.
        source: Regular expression as in the catalogue.
        ends: Whether a match shows that the failure is over.
    """

    def __init__(self, code: str, source: str, *, ends: bool = False) -> None:
        self.code = code
        self.source = source
        self.ends = ends

    @functools.cached_property
    def literals(self) -> tuple[str, ...]:
        """The literals in lower case; every match contains at least one."""
        return required_literals(self.source)

    @functools.cached_property
    def spans_lines(self) -> bool:
        """Whether the pattern matches across many lines."""
        return spans_lines(self.source)

    def sights(self, text: str) -> Iterator[Sight]:
        """Yield the failure that a text shows, at its first match."""
        match = self.regex.search(text)
        if match:
            yield Sight(self.code, match)

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern, whose spaces also match a break between lines."""
        broken = _TOKEN.sub(lambda token: _SPACE if token[0] == " " else token[0], self.source)
        # ASCII only: otherwise the kelvin sign would match k, for which the literals do not allow.
        return re.compile(broken, re.ASCII | re.IGNORECASE)


class ErrorPattern(Pattern):
    """A pattern of one printed form of an API's errors."""

    def __init__(self, form: ErrorForm) -> None:
        super().__init__("", form.source)
        self._form = form

    @functools.cached_property
    def literals(self) -> tuple[str, ...]:
        """The literals in lower case; every match contains at least one."""
        return required_literals(self._form.must_hold)

    def sights(self, text: str) -> Iterator[Sight]:
        """Yield the errors that a text shows, from its first four matches."""
        for match in itertools.islice(self.regex.finditer(text), _MAX_ERRORS):
            shown = self._form.shown_by(match)
            if shown is not None:
                yield Sight(shown[0], match, shown[1])


@functools.cache
def all_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the catalogue, in its order, and of the table of errors."""
    catalogue = read_catalogue().values()
    return (
        *(Pattern(failure.code, source) for failure in catalogue for source in failure.text),
        *(
            Pattern(failure.code, source, ends=True)
            for failure in catalogue
            for source in failure.ends_by
        ),
        *(ErrorPattern(form) for api in read_apis().values() for form in forms_of(api)),
    )


def find_in(text: str) -> Mapping[str, str]:
    """Return a text's failures, from the code to the line that shows the failure."""
    lines: dict[str, str] = {}
    lower = text.lower()
    for pattern in all_patterns():
        if pattern.ends or pattern.code in lines:
            continue
        if any(literal in lower for literal in pattern.literals):
            for sight in pattern.sights(text):
                lines.setdefault(sight.code, _line_of(text, sight.match))
    return without_generic(lines)


def without_generic(failures: Mapping[str, _T]) -> Mapping[str, _T]:
    """Return failures by code, without generic ones where a more specific failure is among them."""
    catalogue = read_catalogue()
    if not any(not catalogue[code].generic and not catalogue[code].beside for code in failures):
        return failures
    return {code: value for code, value in failures.items() if not catalogue[code].generic}


def _line_of(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.end() - 1) + 1
    stop = text.find("\n", match.end())
    return text[start : None if stop < 0 else stop].strip()

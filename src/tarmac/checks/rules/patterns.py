"""The catalogue's patterns, tried only where one of their literals stands."""

from __future__ import annotations

import functools
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tarmac.checks.rules.catalogue import read_catalogue
from tarmac.checks.rules.errors import forms_of, read_apis
from tarmac.checks.rules.literals import required_literals, spans_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tarmac.checks.rules.errors import ErrorForm

_T = TypeVar("_T")

# Of one form, in one line: a line that repeats an error says no more by that.
_MAX_ERRORS = 4

# A space of a pattern, where a message may be broken between two lines. Bounded, as a line of tabs
# would else be looked at as often as it has tabs.
_SPACE = r"(?: |[ \t]{0,40}\n[ \t]{0,40})"

# A class, what is escaped, or a space: a space within one of the first two is no place to break.
_TOKEN = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\.| ")


class Sight(NamedTuple):
    """What a text shows.

    Attributes:
        code: The failure's, in the catalogue.
        match: Match of the pattern in the text.
        words: What it says, where a number or a name says it.
    """

    code: str
    match: re.Match[str]
    words: str = ""


class Pattern:
    """A pattern of what drivers and frameworks print.

    Attributes:
        code: The failure that it shows.
        source: As it stands in the catalogue.
        ends: Whether it shows that the failure is over.
    """

    def __init__(self, code: str, source: str, *, ends: bool = False) -> None:
        self.code = code
        self.source = source
        self.ends = ends

    @functools.cached_property
    def literals(self) -> tuple[str, ...]:
        """Of these, in lower case, every match holds at least one."""
        return required_literals(self.source)

    @functools.cached_property
    def spans_lines(self) -> bool:
        """Whether it joins what is many lines apart."""
        return spans_lines(self.source)

    def sights(self, text: str) -> Iterator[Sight]:
        """Yield what a text shows."""
        match = self.regex.search(text)
        if match:
            yield Sight(self.code, match)

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """The pattern, whose spaces match a break between lines too."""
        broken = _TOKEN.sub(lambda token: _SPACE if token[0] == " " else token[0], self.source)
        # By ASCII: no other letter is one of these in lower case, as K (the unit kelvin) is k.
        return re.compile(broken, re.ASCII | re.IGNORECASE)


class ErrorPattern(Pattern):
    """A pattern of one form in which an API's errors are printed."""

    def __init__(self, form: ErrorForm) -> None:
        super().__init__("", form.source)
        self._form = form

    @functools.cached_property
    def literals(self) -> tuple[str, ...]:
        """Of these, in lower case, every match holds at least one."""
        return required_literals(self._form.must_hold)

    def sights(self, text: str) -> Iterator[Sight]:
        """Yield the first errors that a text shows."""
        for match in itertools.islice(self.regex.finditer(text), _MAX_ERRORS):
            shown = self._form.shown_by(match)
            if shown is not None:
                yield Sight(shown[0], match, shown[1])


@functools.cache
def all_patterns() -> tuple[Pattern, ...]:
    """Return the patterns of the whole catalogue, in its order, and of the table of errors."""
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
    """Return the line of a text that shows each failure, by the failure's code."""
    lines: dict[str, str] = {}
    lower = text.lower()
    for pattern in all_patterns():
        if pattern.ends or pattern.code in lines:
            continue
        if any(literal in lower for literal in pattern.literals):
            for sight in pattern.sights(text):
                lines.setdefault(sight.code, _line_of(text, sight.match))
    return without_generic(lines)


def without_generic(found: Mapping[str, _T]) -> Mapping[str, _T]:
    """Return what was found, without what says less than something else that was."""
    catalogue = read_catalogue()
    if not any(not catalogue[code].generic and not catalogue[code].beside for code in found):
        return found
    return {code: value for code, value in found.items() if not catalogue[code].generic}


def _line_of(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.end() - 1) + 1
    stop = text.find("\n", match.end())
    return text[start : None if stop < 0 else stop].strip()

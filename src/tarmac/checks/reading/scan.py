"""Looks for the catalogue's patterns, and for what the kernel says, in a stream of text.

Memory is bounded: a window moves over the text, and of what it has left behind only counts and one
line for each failure are kept.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from typing import TYPE_CHECKING

from tarmac.checks.kernel_log import MARKS, read_event
from tarmac.checks.reading.lines import bare, unwrapped
from tarmac.checks.reading.manner import Manner, manner_of
from tarmac.checks.reading.prefilter import Prefilter
from tarmac.checks.rules.patterns import all_patterns, without_generic

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

    from tarmac.checks.rules.patterns import Pattern

# What is seen of a line to each side of a literal: a longer line is a progress bar, or data.
_REACH_BYTES = 2**14

# What is seen of two lines to each side of the break between them: no message is longer.
_BREAK_REACH = 2**8

# How far back a pattern that spans lines looks: a traceback, with what its program said before.
_SPAN_BYTES = 2**14

# More than this without the end of a line is looked at before it comes.
_MAX_WAITING_BYTES = 2**20

_LONGEST_SHOWN = 300


@dataclasses.dataclass
class Seen:
    """Where a failure was seen: the first and the last line, how often, and the first one's text.

    Attributes:
        words: What a number or a name in the line says; empty for other lines.
        manner: How the line tells of it that tells most surely.
        place: Where the failure is named in the text.
    """

    first: int
    last: int
    count: int
    text: str
    words: str = ""
    manner: Manner = Manner.RAISED
    place: int = 0

    def shown(self, clean: Callable[[str], str]) -> str:
        """Return the text, cut to what can be read: secrets are masked before one is cut in two.

        Args:
            clean: Masks what is not to be shown.
        """
        text = clean(self.text).strip()
        if len(text) > _LONGEST_SHOWN:
            skipped = max(0, len(clean(self.text[: self.place])) - _LONGEST_SHOWN // 3)
            text = f"{'...' if skipped else ''}{text[skipped : skipped + _LONGEST_SHOWN]}"
        return text.strip()[:_LONGEST_SHOWN]


class Scanner:
    """Takes a log piece by piece.

    Attributes:
        seen: What was seen, by the failure's code.
        ended: The last line that shows that a failure is over, by its code.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.ended: dict[str, int] = {}
        # The window: lines that were looked at, as far back as patterns reach, and the rest.
        self._data = b""
        self._start = 0
        self._line_of_start = 1
        self._newlines = 0
        self._ends_line = True
        # The lines beside the one that is looked at, joined with it.
        self._pairs_of = -1
        self._both: list[tuple[int, str]] = []

    @property
    def num_lines(self) -> int:
        """How many lines have come, with the last one if nothing ends it."""
        return self._newlines + (not self._ends_line)

    def feed(self, piece: bytes) -> None:
        """Take the next piece; a line is looked at when the one after it has come."""
        if not piece:
            return
        self._newlines += piece.count(b"\n")
        self._ends_line = piece.endswith(b"\n")
        self._data += piece
        last = self._data.rfind(b"\n")
        stop = self._data.rfind(b"\n", 0, max(last, 0)) + 1
        if len(self._data) - stop > _MAX_WAITING_BYTES:
            stop = len(self._data) - _REACH_BYTES
        self._look(stop)

    def finish(self) -> None:
        """Look at what has come last."""
        self._look(len(self._data))

    def _look(self, stop: int) -> None:
        """Look at the window up to a place, and leave behind what no pattern reaches any more."""
        if stop <= self._start:
            return
        by_literal = _patterns_by_literal()
        line, place, end = self._line_of_start, self._start, -1
        wanted: dict[Pattern | None, None] = {}
        for hit, literal in _prefilter().find(self._data, self._start, stop):
            if hit >= end:
                self._judge(line, place, wanted)
                wanted = {}
                line += self._data.count(b"\n", place, hit)
                place = hit
                end = _end_of_line(self._data, hit)
            wanted |= dict.fromkeys(by_literal[literal])
        self._judge(line, place, wanted)
        self._pairs_of = -1
        self._line_of_start += self._data.count(b"\n", self._start, stop)
        cut = max(0, stop - _SPAN_BYTES)
        self._data, self._start = self._data[cut:], stop - cut

    def _judge(self, line: int, place: int, wanted: Mapping[Pattern | None, None]) -> None:
        """Try patterns at the line of a place, and at those beside it for a broken message."""
        if not wanted:
            return
        here = _line_at(self._data, place)
        matches: dict[str, Seen] = {}
        for pattern in wanted:
            if pattern is None:
                if event := read_event(here):
                    place_of_mark = min(here.find(mark) for mark in MARKS if mark in here)
                    manner = manner_of(here, place_of_mark)
                    # The kernel's log has no levels that a program would go on after, and each
                    # event has a level of its own, as nothing in it is raised.
                    sure = Manner.PRINTED if manner else manner
                    matches[event.code] = Seen(line, line, 1, here, event.words, sure)
            elif pattern.ends:
                self.ended |= dict.fromkeys((sight.code for sight in pattern.sights(here)), line)
            else:
                for code, sight in self._found(pattern, here, line, place).items():
                    if code not in matches or matches[code].manner < sight.manner:
                        matches[code] = sight
        for code, seen in without_generic(matches).items():
            if seen.manner is not Manner.SPOKEN:
                self._note(code, seen)

    def _found(self, pattern: Pattern, here: str, line: int, place: int) -> dict[str, Seen]:
        """Return what a pattern finds in a line, or in it and one beside it, by the code."""
        if pattern.spans_lines:
            before = self._data[max(0, place - _SPAN_BYTES) : place]
            text = before[: before.rfind(b"\n") + 1].decode(errors="replace") + here
            return {
                sight.code: Seen(
                    *(line, line, 1, here, sight.words), manner_of(text, sight.match.end() - 1)
                )
                for sight in pattern.sights(text)
            }
        if in_line := _seen(pattern, here, line):
            return in_line
        if self._pairs_of != place:
            self._pairs_of, self._both = place, self._pairs(place, here)
        each = (_seen(pattern, both, line + offset, across=True) for offset, both in self._both)
        return next(filter(None, each), {})

    def _pairs(self, place: int, here: str) -> list[tuple[int, str]]:
        """Return a line with the next, and with the one before: a message may be broken there.

        Each comes with where its first line is: 0 for here, -1 for one above.
        """
        start = self._data.rfind(b"\n", 0, place) + 1
        stop = self._data.find(b"\n", place)
        pairs = []
        if 0 <= stop < len(self._data) - 1:
            pairs.append((0, _broken(here, _line_at(self._data, stop + 1))))
        if start > 0:
            pairs.append((-1, _broken(_line_at(self._data, start - 1), here)))
        return pairs

    def _note(self, code: str, new: Seen) -> None:
        seen = self.seen.setdefault(code, new)
        if new.first > seen.last:
            seen.last = new.first
            seen.count += 1
            seen.manner = max(seen.manner, new.manner)


def _broken(first: str, second: str) -> str:
    """Return two lines as one message, of long ones what is near the break."""
    return f"{bare(first)[-_BREAK_REACH:]}\n{bare(second[: 2 * _BREAK_REACH])[:_BREAK_REACH]}"


def _seen(pattern: Pattern, text: str, line: int, *, across: bool = False) -> dict[str, Seen]:
    """Return what a line, or two that belong together, show, by the failure's code.

    Args:
        pattern: Pattern to try on the text.
        text: The line, or both.
        line: The first one's number.
        across: Leave out what stands in one of two lines alone, which is looked at by itself.
    """
    end = text.find("\n") if across else -1
    seen = {}
    for sight in pattern.sights(text):
        if not across or sight.match.start() <= end < sight.match.end():
            lines, place = _lines_of(text, sight.match)
            manner = manner_of(text, sight.match.start())
            seen[sight.code] = Seen(line, line, 1, lines, sight.words, manner, place)
    return seen


@functools.cache
def _patterns_by_literal() -> Mapping[str, tuple[Pattern | None, ...]]:
    """Return the patterns to try where a literal stands; None for the kernel's lines."""
    patterns: dict[str, list[Pattern | None]] = defaultdict(list)
    for mark in MARKS:
        patterns[mark.strip().lower()].append(None)
    for pattern in all_patterns():
        for literal in pattern.literals:
            patterns[literal].append(pattern)
    return {literal: tuple(those) for literal, those in patterns.items()}


@functools.cache
def _prefilter() -> Prefilter:
    return Prefilter(_patterns_by_literal())


def _end_of_line(data: bytes, place: int) -> int:
    """Return where a line ends, or is overwritten."""
    stop = data.find(b"\n", place)
    stop = stop if stop >= 0 else len(data)
    overwritten = data.find(b"\r", place, stop)
    return overwritten if overwritten >= 0 else stop


def _line_at(data: bytes, place: int) -> str:
    """Return the line of a place; of a long one, and of what progress bars overwrite, what is near.

    What is no UTF-8 is taken for Latin-1, in which every byte is a letter.
    """
    low, high = max(0, place - _REACH_BYTES), min(len(data), place + _REACH_BYTES)
    start = max(data.rfind(b"\n", low, place), data.rfind(b"\r", low, place)) + 1 or low
    line = data[start : min(high, _end_of_line(data, place))]
    try:
        return unwrapped(line.decode())
    except UnicodeDecodeError:
        return unwrapped(line.decode("latin-1"))


def _lines_of(text: str, match: re.Match[str]) -> tuple[str, int]:
    """Return the line or lines of a match as one, and where the match begins in it."""
    start = text.rfind("\n", 0, match.start() + 1) + 1
    stop = text.find("\n", max(match.start(), match.end() - 1))
    lines = text[start : stop if stop >= 0 else None].splitlines()
    return " ".join(line.strip() for line in lines), max(0, match.start() - start)

"""Searches a stream of text for the catalogue's patterns and for the kernel's messages.

Memory is bounded: a window moves over the text. Behind the window only counts and one line for each
failure are kept.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Mapping

from tarmac.checks.kernel_log import MARKS, read_event
from tarmac.checks.reading.lines import bare, unwrapped
from tarmac.checks.reading.manner import Manner, manner_of
from tarmac.checks.reading.prefilter import Prefilter
from tarmac.checks.rules.patterns import Pattern, all_patterns, without_generic

# Bytes of a line that are read to each side of a literal: a longer line is a progress bar, or data.
_REACH_BYTES = 2**14

# Characters read to each side of the break between two lines: no message is longer.
_BREAK_REACH = 2**8

# Bytes that a pattern across lines searches backwards: a traceback, and the output before it.
_SPAN_BYTES = 2**14

# Bytes without the end of a line after which the line is searched before its end has come.
_MAX_WAITING_BYTES = 2**20

_LONGEST_SHOWN = 300


@dataclasses.dataclass
class Seen:
    """The lines that show a failure: first and last line, their number, and the first one's text.

    Attributes:
        words: Meaning of a number or a name in the line, in words; empty without one.
        manner: Surest manner among the lines that show the failure.
        place: Index in the text at which the failure is named.
    """

    first: int
    last: int
    count: int
    text: str
    words: str = ""
    manner: Manner = Manner.RAISED
    place: int = 0

    def shown(self, clean: Callable[[str], str]) -> str:
        """Return the text, redacted first and then cut, so that no secret is cut in two.

        Args:
            clean: Returns a text with the secrets in it redacted.
        """
        text = clean(self.text).strip()
        if len(text) > _LONGEST_SHOWN:
            skipped = max(0, len(clean(self.text[: self.place])) - _LONGEST_SHOWN // 3)
            text = f"{'...' if skipped else ''}{text[skipped : skipped + _LONGEST_SHOWN]}"
        return text.strip()[:_LONGEST_SHOWN]


class Scanner:
    """A search of a log that comes piece by piece.

    Attributes:
        seen: Lines that show each failure, by the failure's code.
        ended: Number of the last line that shows a failure to be over, by its code.
    """

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.ended: dict[str, int] = {}
        # The window: searched lines, as far back as patterns reach, and those still to search.
        self._data = b""
        self._start = 0
        self._line_of_start = 1
        self._newlines = 0
        self._ends_line = True
        # The current line joined with each of its neighbours, and the position that it is for.
        self._pairs_of = -1
        self._both: list[tuple[int, str]] = []

    @property
    def num_lines(self) -> int:
        """The number of lines so far, including a last line without a line feed."""
        return self._newlines + (not self._ends_line)

    def feed(self, piece: bytes) -> None:
        """Take the next piece; a line is searched once the line after it has come."""
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
        """Search the rest of the log, after the last piece."""
        self._look(len(self._data))

    def _look(self, stop: int) -> None:
        """Search the window up to an index, and drop the bytes that no pattern reaches any more."""
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
        """Try patterns at one line, and at it joined with each neighbour for a broken message."""
        if not wanted:
            return
        here = _line_at(self._data, place)
        matches: dict[str, Seen] = {}
        for pattern in wanted:
            if pattern is None:
                if event := read_event(here):
                    place_of_mark = min(here.find(mark) for mark in MARKS if mark in here)
                    manner = manner_of(here, place_of_mark)
                    # A level in the kernel's log does not mean that a program continued, and no
                    # line of it raises an exception: each event has the level of its failure.
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
        """Return a pattern's matches in a line, or in it joined with a neighbour, by the code."""
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
        matches = (_seen(pattern, both, line + offset, across=True) for offset, both in self._both)
        return next(filter(None, matches), {})

    def _pairs(self, place: int, here: str) -> list[tuple[int, str]]:
        """Return the line joined with the next and with the previous one, for broken messages.

        Each pair comes with the offset of its first line: 0 for this line, -1 for the previous.
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
    """Return two lines as one message; of long lines, only the part near the break."""
    return f"{bare(first)[-_BREAK_REACH:]}\n{bare(second[: 2 * _BREAK_REACH])[:_BREAK_REACH]}"


def _seen(pattern: Pattern, text: str, line: int, *, across: bool = False) -> dict[str, Seen]:
    """Return the failures that a line or two joined lines show, by their code.

    Args:
        pattern: Pattern to try on the text.
        text: The line, or the two joined lines.
        line: Number of the first line.
        across: Leave out matches inside one of two lines, as each line is searched by itself.
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
    """Return the patterns to try where a literal occurs; None stands for the kernel's lines."""
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
    """Return the index at which a line ends or a carriage return overwrites it."""
    stop = data.find(b"\n", place)
    stop = stop if stop >= 0 else len(data)
    overwritten = data.find(b"\r", place, stop)
    return overwritten if overwritten >= 0 else stop


def _line_at(data: bytes, place: int) -> str:
    """Return the line at an index; of long lines and of progress bars, only the part around it.

    A line that is no UTF-8 is decoded as Latin-1, in which every byte is a character.
    """
    low, high = max(0, place - _REACH_BYTES), min(len(data), place + _REACH_BYTES)
    start = max(data.rfind(b"\n", low, place), data.rfind(b"\r", low, place)) + 1 or low
    line = data[start : min(high, _end_of_line(data, place))]
    try:
        return unwrapped(line.decode())
    except UnicodeDecodeError:
        return unwrapped(line.decode("latin-1"))


def _lines_of(text: str, match: re.Match[str]) -> tuple[str, int]:
    """Return the lines of a match joined into one, and the index of the match in it."""
    start = text.rfind("\n", 0, match.start() + 1) + 1
    stop = text.find("\n", max(match.start(), match.end() - 1))
    lines = text[start : stop if stop >= 0 else None].splitlines()
    return " ".join(line.strip() for line in lines), max(0, match.start() - start)

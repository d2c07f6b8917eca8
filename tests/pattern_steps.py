"""How many steps a backtracking engine takes for a pattern, counted instead of timed.

It does what Python's `re` does, without what makes that faster for some patterns: a pattern whose
steps grow with the square of a line's length is found however fast or loaded the machine is.
"""

from __future__ import annotations

import functools
import re
from re import _parser as parser  # type: ignore[attr-defined] # typeshed has the old name alone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")

_SINGLE = ("LITERAL", "NOT_LITERAL", "ANY", "IN")

_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


def num_steps(pattern: str, text: str) -> int:
    """Return the steps of looking for a pattern, without regard to case, in all of a text."""
    return _Search(pattern, text.lower()).run()


def growth_of_steps(
    pattern: str, length: int, text_of: Callable[[int], str] | None = None
) -> float:
    """Return how many times as long a pattern takes, at worst, for a text twice as long.

    Args:
        pattern: The pattern.
        length: Of the shorter text, in characters.
        text_of: Returns a text of some length. Default: the worst of `adversarial_lines`.
    """
    short, long = (
        max(
            num_steps(pattern, text)
            for text in (adversarial_lines(pattern, many) if text_of is None else [text_of(many)])
        )
        for many in (length, 2 * length)
    )
    return long / short


def adversarial_lines(pattern: str, length: int) -> set[str]:
    """Return lines that begin a pattern as often as they can, and end it never.

    Each has what the pattern begins with, up to one of its repeats, either again and again or
    once with what that repeat takes behind it.
    """
    parts = [*parser.parse(pattern, re.ASCII)]
    lines = set()
    for count, (operation, argument) in enumerate(parts):
        start = sample(parts[:count])
        if count == len(parts) - 1:
            lines.add((start * length)[:length])
        if str(operation) in _REPEATS:
            (inner, *_) = argument[2]
            taken = _letters(str(inner[0]), inner[1]) if str(inner[0]) in _SINGLE else " a1"
            lines.add(((start or sample(parts[: count + 1])) * length)[:length])
            for filler in (letter for letter in "a1\t" if letter in taken):
                lines.add((start + filler * length)[:length])
        elif str(operation) in ("BRANCH", "SUBPATTERN"):
            lines.add((start + "\t" * length)[:length])
    return lines


def sample(parts: Any) -> str:
    """Return a short text that a sequence of a pattern's parts matches."""
    return "".join(_sample(str(operation), argument) for operation, argument in parts)


def _sample(operation: str, argument: Any) -> str:  # noqa: PLR0911 - a case for each operation
    match operation:
        case "LITERAL":
            return chr(argument)
        case "IN" | "ANY" | "NOT_LITERAL":
            letters = _letters(operation, argument)
            return next(
                letter for letter in "a1 _.-x\n" + "".join(sorted(letters)) if letter in letters
            )
        case "BRANCH":
            return sample(argument[1][0])
        case "SUBPATTERN":
            return sample(argument[-1])
        case "ATOMIC_GROUP":
            return sample(argument)
        case operation if operation in _REPEATS:
            return sample(argument[2]) * max(1, argument[0])
    return ""


def _letters(operation: str, argument: Any) -> frozenset[str]:
    """Return the ASCII characters, in lower case, that a part matches."""
    every = [chr(code) for code in range(128)]
    if operation == "ANY":
        return frozenset(every) - {"\n"}
    if operation in ("LITERAL", "NOT_LITERAL"):
        one = {chr(argument).lower()}
        return frozenset(one) if operation == "LITERAL" else frozenset(every) - one
    letters: set[str] = set()
    members = [(str(kind), value) for kind, value in argument]
    for kind, value in members:
        if kind == "LITERAL":
            letters.add(chr(value).lower())
        elif kind == "RANGE":
            letters |= {chr(code).lower() for code in range(value[0], value[1] + 1)}
        elif kind == "CATEGORY":
            letters |= {c for c in every if re.match(_CATEGORIES[str(value)], c, re.ASCII)}
    return frozenset(every) - letters if ("NEGATE", None) in members else frozenset(letters)


@functools.lru_cache(maxsize=256)
def _parsed(pattern: str) -> tuple[list[Any], dict[int, frozenset[str]]]:
    """Return a pattern's parts, and what is known of the letters of each."""
    return [*parser.parse(pattern, re.ASCII)], {}


class _Search:
    def __init__(self, pattern: str, text: str) -> None:
        self.parts, self.known = _parsed(pattern)
        self.text = text
        self.steps = 0

    def run(self) -> int:
        operation, argument = self.parts[0]
        first = self._of(operation, argument) if str(operation) == "LITERAL" else None
        start = 0
        while start < len(self.text):
            self.steps += 1
            end = None
            if first is None or self.text[start] in first:
                end = next(self._all(self.parts, 0, start), None)
            start = max(start + 1, end or 0)
        return self.steps

    def _of(self, operation: Any, argument: Any) -> frozenset[str]:
        key = id(argument) if isinstance(argument, list) else hash((str(operation), argument))
        if key not in self.known:
            self.known[key] = _letters(str(operation), argument)
        return self.known[key]

    def _all(self, parts: Any, number: int, place: int) -> Iterator[int]:
        if number == len(parts):
            yield place
            return
        for after in self._one(*parts[number], place):
            yield from self._all(parts, number + 1, after)

    def _one(  # noqa: PLR0912 - a case for each operation
        self, operation: Any, argument: Any, place: int
    ) -> Iterator[int]:
        self.steps += 1
        match str(operation):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                if place < len(self.text) and self.text[place] in self._of(operation, argument):
                    yield place + 1
            case "BRANCH":
                for way in argument[1]:
                    yield from self._all(way, 0, place)
            case "SUBPATTERN":
                yield from self._all(argument[-1], 0, place)
            case "ATOMIC_GROUP":
                yield from [*self._all(argument, 0, place)][:1]
            case "MAX_REPEAT":
                yield from self._greedy(argument, place)
            case "MIN_REPEAT":
                yield from self._lazy(argument, place, 0)
            case "POSSESSIVE_REPEAT":
                yield from [*self._greedy(argument, place)][:1]
            case "AT":
                if self._is_at(str(argument), place):
                    yield place
            case "ASSERT" | "ASSERT_NOT":
                direction, inner = argument
                start = place if direction > 0 else place - inner.getwidth()[1]
                holds = start >= 0 and next(self._all(inner, 0, start), None) is not None
                if holds == (str(operation) == "ASSERT"):
                    yield place
            case other:
                # No pattern of the catalogue has another operation yet.
                raise NotImplementedError(other)

    def _greedy(self, argument: Any, place: int) -> Iterator[int]:
        low, high, inner = argument
        if len(inner) == 1 and str(inner[0][0]) in _SINGLE:
            stop = place
            letters = self._of(*inner[0])
            while stop < len(self.text) and stop - place < high and self.text[stop] in letters:
                stop += 1
            self.steps += stop - place
            yield from range(stop, place + low - 1, -1)
        else:
            yield from self._nested(argument, place, 0)

    def _nested(self, argument: Any, place: int, count: int) -> Iterator[int]:
        low, high, inner = argument
        if count < high:
            for after in self._all(inner, 0, place):
                if after > place:
                    yield from self._nested(argument, after, count + 1)
        if count >= low:
            yield place

    def _lazy(self, argument: Any, place: int, count: int) -> Iterator[int]:
        low, high, inner = argument
        places = [place]
        while places:
            if count >= low:
                yield from places
            if count == high:
                return
            places = [after for at in places for after in self._all(inner, 0, at)]
            count += 1

    def _is_at(self, where: str, place: int) -> bool:
        before = self.text[place - 1 : place] if place else ""
        after = self.text[place : place + 1]
        is_boundary = bool(re.match(r"\w", before)) != bool(re.match(r"\w", after))
        return {
            "AT_BEGINNING": place == 0,
            "AT_BEGINNING_STRING": place == 0,
            "AT_END": place == len(self.text),
            "AT_END_STRING": place == len(self.text),
            "AT_BOUNDARY": is_boundary,
            "AT_NON_BOUNDARY": not is_boundary,
        }[where]

r"""The literals that a text must contain for a pattern to match, read from the parsed pattern.

A search for a literal is far cheaper than trying a pattern, so a pattern is tried only where one of
its literals occurs. Literals are in lower case, for a search in lower-case text.

Example:
    >>> required_literals(r"NCCL WARN .*(refused|reset) by peer")
    ('by peer',)
    >>> required_literals("no kernel image is available")
    ('no kernel', 'is available')
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _parser as parser  # type: ignore[attr-defined] # typeshed only has the old name
from typing import Any

# Shorter literals occur in nearly every line, and are not searched.
SHORTEST = 4

# Characters that lines of JSON escape: "\"", "\\", "\/" and, by Go, "\u003c".
_ESCAPED = frozenset('"\\/<>&')

# The letters that make up most of what programs print.
_COMMON = frozenset("etaoinsrldcu ")

# Minimum characters of a half: "error" and "memory" occur in many lines, "of memory" in few.
_SHORTEST_HALF = 8


def required_literals(pattern: str) -> tuple[str, ...]:
    """Return literals, at least one of which is in every match of a pattern.

    A message of several words may be broken between two lines. So it gives two halves where both
    are long enough: one half is whole wherever the break is. A pattern that spans lines gives the
    literals of its end.

    Raises:
        ValueError: The pattern has no literal of at least `SHORTEST` characters.
    """
    parts = [*_flat(parser.parse(pattern, re.ASCII))]
    last = max((n for n, (_, argument) in enumerate(parts) if _is_span(argument)), default=-1)
    covers = [tuple(_halves(cover)) for cover in _covers(parts[last + 1 :])]
    best = max(covers, key=_weight, default=())
    if not best or min(map(len, best)) < SHORTEST:
        raise ValueError(f"the pattern {pattern!r} has no {SHORTEST} plain characters in a row")
    return tuple(dict.fromkeys(best))


def spans_lines(pattern: str) -> bool:
    r"""Return whether a pattern matches across lines, by ``[\s\S]*``."""
    return any(_is_span(argument) for _, argument in _flat(parser.parse(pattern, re.ASCII)))


def _covers(parts: Sequence[tuple[Any, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield sets of literals; a match contains at least one literal of each set."""
    run = ""
    for operation, argument in (*parts, ("END", None)):
        letter = _letter(str(operation), argument)
        if letter:
            run += letter
            continue
        if run.strip():
            yield (run.strip(),)
        run = ""
        match str(operation):
            case "BRANCH":
                ways = [max(_covers([*_flat(way)]), key=_weight, default=()) for way in argument[1]]
                if all(ways):
                    yield tuple(literal for way in ways for literal in way)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT" if argument[0] > 0:
                yield from _covers([*_flat(argument[2])])
            case "ATOMIC_GROUP":
                yield from _covers([*_flat(argument)])


def _flat(parts: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a sequence's parts, with groups replaced by their own parts."""
    for operation, argument in parts:
        if str(operation) == "SUBPATTERN":
            yield from _flat(argument[-1])
        else:
            yield operation, argument


def _is_span(argument: Any) -> bool:
    r"""Return whether a part's argument is the parsed form of ``[\s\S]*``."""
    return "CATEGORY_SPACE" in str(argument) and "CATEGORY_NOT_SPACE" in str(argument)


def _letter(operation: str, argument: Any) -> str:
    """Return the single character that a part matches, in lower case; empty for other parts."""
    if operation == "IN":
        letters = {_letter(str(kind), value) for kind, value in argument}
        return letters.pop() if len(letters) == 1 else ""
    if operation != "LITERAL":
        return ""
    letter = chr(argument)
    is_plain = letter.isascii() and letter.isprintable() and letter not in _ESCAPED
    return letter.lower() if is_plain else ""


def _halves(cover: Sequence[str]) -> Iterator[str]:
    """Yield the two halves of each literal where both are long enough, else the literal."""
    for literal in cover:
        breaks = [place for place, letter in enumerate(literal) if letter == " "]
        halves = [(literal[:place].rstrip(), literal[place:].lstrip()) for place in breaks]
        best = max(halves, key=lambda both: min(map(len, both)), default=("",))
        yield from best if min(map(len, best)) >= _SHORTEST_HALF else (literal,)


def _weight(cover: Sequence[str]) -> float:
    """Return the lowest weight among some literals; rare letters count twice."""
    return min(
        (
            sum(2 - (letter in _COMMON) for letter in text) * (len(text) >= SHORTEST)
            for text in cover
        ),
        default=0.0,
    )

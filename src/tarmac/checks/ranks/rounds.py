"""Rounds of disjoint pairs, by the round-robin tournament."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def pair_up(units: Sequence[_T], most_rounds: int) -> Iterator[list[tuple[_T, _T]]]:
    """Yield rounds of pairs; each unit is in at most one pair of a round, and no pair repeats.

    This is the circle method of tournaments: the first unit keeps its place, and all others move on
    by one place. With an odd number of units, one unit rests in each round.

    Example:
        >>> list(pair_up("abcd", 9))
        [[('a', 'd'), ('b', 'c')], [('a', 'c'), ('d', 'b')], [('a', 'b'), ('c', 'd')]]
    """
    places: list[_T | None] = [*units, *([None] if len(units) % 2 else [])]
    half = len(places) // 2
    for _ in range(min(most_rounds, len(places) - 1)):
        across = zip(places[:half], reversed(places[half:]), strict=True)
        yield [(a, b) for a, b in across if a is not None and b is not None]
        places = [places[0], places[-1], *places[1:-1]]

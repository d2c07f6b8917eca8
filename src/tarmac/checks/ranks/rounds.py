"""Who is paired with whom: rounds of disjoint pairs, by the round-robin tournament."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_T = TypeVar("_T")


def pair_up(units: Sequence[_T], most_rounds: int) -> Iterator[list[tuple[_T, _T]]]:
    """Yield rounds in which each meets at most one other, and never the same twice.

    This is the circle method of scheduling tournaments: one stays, all others move on by a place.
    With an odd number, each rests for one round.

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

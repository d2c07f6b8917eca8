"""Attempts that are in no chunk yet, grouped by shape."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tarmac.executors.queueing.held import SubmittedAttempt
from tarmac.tasks.plan import Task


class Backlog:
    """A queue of attempts in order of arrival, grouped by shape.

    Args:
        shape_of: Returns the needs of a task's units, as JSON.
    """

    def __init__(self, shape_of: Callable[[Task], Mapping[str, Any]]) -> None:
        self._shape_of = shape_of
        self._shapes: dict[str, Mapping[str, Any]] = {}
        self._flights: dict[str, deque[SubmittedAttempt]] = {}
        # Most tasks share one shape object. `_kept` keeps each alive, so that its id stays unique.
        self._keys: dict[int, str] = {}
        self._kept: list[Mapping[str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._flights)

    def __iter__(self) -> Iterator[SubmittedAttempt]:
        return (flight for flights in [*self._flights.values()] for flight in [*flights])

    def push(self, flight: SubmittedAttempt) -> None:
        """Append an attempt to the others of its shape."""
        self._flights.setdefault(self._key(flight), deque()).append(flight)

    def put_back(self, flights: Sequence[SubmittedAttempt]) -> None:
        """Prepend attempts of one shape to the others of that shape, in their order."""
        for flight in reversed(flights):
            self._flights.setdefault(self._key(flight), deque()).appendleft(flight)

    def next(self) -> tuple[Mapping[str, Any], Sequence[SubmittedAttempt]]:
        """Return the next shape and its attempts; the backlog must not be empty."""
        key, flights = next(iter(self._flights.items()))
        return self._shapes[key], flights

    def take(self, count: int) -> list[SubmittedAttempt]:
        """Remove and return the first attempts of the next shape, at most `count`."""
        key, flights = next(iter(self._flights.items()))
        taken = [flights.popleft() for _ in range(min(count, len(flights)))]
        if not flights:
            del self._flights[key]
        return taken

    def remove(self, flight: SubmittedAttempt) -> bool:
        """Remove an attempt; return whether it was in the backlog."""
        key = self._key(flight)
        flights = self._flights.get(key, deque())
        if flight not in flights:
            return False
        flights.remove(flight)
        if not flights:
            del self._flights[key]
        return True

    def _key(self, flight: SubmittedAttempt) -> str:
        shape = self._shape_of(flight.attempt.task)
        known = self._keys.get(id(shape))
        if known is None:
            known = self._keys[id(shape)] = json.dumps(shape, sort_keys=True)
            self._shapes.setdefault(known, shape)
            self._kept.append(shape)
        return known

"""Sweeps: one task for many combinations of parameter values."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from tarmac.documents import Count, Whole
from tarmac.tasks.parts import Part


class Range(Part):
    """A range of numbers, both bounds included.

    Attributes:
        low: Lower bound, included; above 0 where ``log`` is on.
        high: Upper bound, included; at least ``low``.
        log: Whether draws are uniform in the logarithm. Default False.
        integer: Whether numbers are rounded to integers. Default False.
    """

    low: float
    high: float
    log: bool = False
    integer: bool = False

    @model_validator(mode="after")
    def _bounds(self) -> Range:
        if not self.low <= self.high or (self.log and self.low <= 0):
            raise ValueError("expected low up to high, and low above 0 where log is on")
        return self

    def draw(self, rng: random.Random) -> float | int:
        """Draw a number from the range."""
        if self.log:
            value = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = rng.uniform(self.low, self.high)
        # Rounding may exceed the bounds by the last bit.
        value = min(max(value, self.low), self.high)
        return round(value) if self.integer else value


_NULL = "null is not a value; for the word, write 'null' in quotes"


def _values(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list of at least one value")
    if None in value:
        raise ValueError(_NULL)
    return value


Values = Annotated[tuple[Any, ...], BeforeValidator(_values)]


class RandomSearch(Part):
    """A random search, which draws values of parameters.

    Attributes:
        count: Number of tasks to draw values for.
        seed: Seed of the draws. Default 0.
        parameters: Lists or ranges to draw from, by parameter.
    """

    count: Count
    seed: Whole = 0
    parameters: dict[str, Range | Values] = Field(min_length=1)


class Sweep(Part):
    """The values of a sweep's parameters; several kinds are combined with each other.

    Attributes:
        grid: Lists of values, of which every combination is taken.
        zipped: Lists that are combined by position: all first values, all second values; ``zip`` in
            files.
        listed: List of explicit combinations; ``list`` in files.
        random: Random search that draws values for its parameters. Default: none.
        repeat: Number of repetitions of each combination; ``repeat`` counts them from 0.
        files: Parameters whose values are the paths that match a pattern.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    grid: dict[str, Values] = Field(default={})
    zipped: dict[str, Values] = Field(default={}, alias="zip")
    listed: tuple[dict[str, Any], ...] = Field(default=(), alias="list")
    random: RandomSearch | None = None
    repeat: Count | None = None
    files: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _whole(self) -> Sweep:
        if len({len(values) for values in self.zipped.values()}) > 1:
            lengths = ", ".join(f"{name} {len(values)}" for name, values in self.zipped.items())
            raise ValueError(f"the lists of zip have different lengths: {lengths}")
        if len({frozenset(combination) for combination in self.listed}) > 1:
            raise ValueError("the combinations of list have different parameters")
        if any(None in combination.values() for combination in self.listed):
            raise ValueError(f"list: {_NULL}")
        names = self.names
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{twice!r} gets its values twice")
        if not names:
            raise ValueError("expected one of grid, zip, list, random, repeat and files")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters of the sweep."""
        listed = self.listed[0] if self.listed else ()
        drawn = self.random.parameters if self.random is not None else ()
        repeat = ("repeat",) if self.repeat is not None else ()
        return (*self.grid, *self.zipped, *listed, *self.files, *drawn, *repeat)

    def size(self, files: dict[str, list[str]] | None = None) -> int:
        """Return the number of combinations.

        Args:
            files: Matching paths for each pattern of ``files``; None counts one path per pattern.
        """
        count = math.prod(len(values) for values in self.grid.values())
        count *= len(next(iter(self.zipped.values()), (None,)))
        count *= len(self.listed) or 1
        count *= self.random.count if self.random is not None else 1
        count *= self.repeat or 1
        return count * math.prod(map(len, (files or {}).values()))

    def combinations(self, files: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
        """Yield every combination, the last kind's values changing fastest.

        Args:
            files: Matching paths for each pattern of ``files``.
        """
        kinds: list[list[dict[str, Any]]] = []
        if self.grid:
            grid = itertools.product(*self.grid.values())
            kinds.append([dict(zip(self.grid, row, strict=True)) for row in grid])
        if self.zipped:
            rows = zip(*self.zipped.values(), strict=True)
            kinds.append([dict(zip(self.zipped, row, strict=True)) for row in rows])
        if self.listed:
            kinds.append([dict(combination) for combination in self.listed])
        if self.random is not None:
            kinds.append([*_draws(self.random)])
        kinds += [[{name: path} for path in files[name]] for name in self.files]
        for parts in itertools.product(*kinds):
            combined = {name: value for part in parts for name, value in part.items()}
            if self.repeat is None:
                yield combined
                continue
            for number in range(self.repeat):
                yield {**combined, "repeat": number}


def _draws(search: RandomSearch) -> Iterator[dict[str, Any]]:
    rng = random.Random(search.seed)  # noqa: S311 - a search, no secret
    for _ in range(search.count):
        yield {
            name: values.draw(rng) if isinstance(values, Range) else rng.choice(values)
            for name, values in search.parameters.items()
        }

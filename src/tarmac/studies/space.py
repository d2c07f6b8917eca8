"""The space of a search: its parameters, their conditions, and a key for each configuration.

Example:
    >>> width = Choices((16, 32), when={"layers": (2,)})
    >>> space = Space({"layers": Choices((1, 2)), "width": width})
    >>> space.size
    3
    >>> space.key({"layers": 1, "width": 32}) == space.key({"layers": 1})
    True
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

    from tarmac.training import Setting

Condition = dict[str, tuple[bool | int | float | str | None, ...]]

# Size of the largest space whose configurations are enumerated, which must be quick.
_MAX_WALK = 100_000


def seeded(*parts: object) -> random.Random:
    """Return a random generator that is seeded by ``parts``."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311 - nothing here is a secret


@dataclasses.dataclass(frozen=True)
class Choices:
    """A parameter with a list of values.

    Attributes:
        values: At least one value; all values differ.
        when: Use the parameter only if each parameter named here has one of its listed values.
    """

    values: tuple[Setting, ...]
    when: Condition = dataclasses.field(default_factory=dict)

    @property
    def size(self) -> float:
        """Number of values."""
        return len(self.values)

    def draw(self, rng: random.Random) -> Setting:
        """Return a random value."""
        return rng.choice(self.values)

    def all(self) -> Iterator[Setting]:
        """Yield every value."""
        yield from self.values

    def __contains__(self, value: object) -> bool:
        return any(value == choice and type(value) is type(choice) for choice in self.values)

    def distribution(self) -> BaseDistribution:
        """Return the parameter as an Optuna distribution."""
        from optuna.distributions import CategoricalDistribution  # noqa: PLC0415 - loaded lazily

        return CategoricalDistribution(self.values)


@dataclasses.dataclass(frozen=True)
class Numbers:
    """A parameter with a range of numbers.

    Attributes:
        low: Least value of the range, included.
        high: Greatest value of the range, included where ``step`` reaches it.
        step: Distance between two numbers, counted from ``low``; None for every number between.
        log: Whether to draw on a logarithmic scale.
        whole: Whether the numbers are integers, whose default step is 1.
        when: Condition on other parameters, as in `Choices`.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False
    whole: bool = False
    when: Condition = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        # Texts and older records may have 16.0, which integer settings refuse.
        kind = int if self.whole else float
        for name in ("low", "high", "step"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else kind(value))

    @property
    def size(self) -> float:
        """Number of values; infinity for a range of floats without a step."""
        if self.whole:
            return (int(self.high) - int(self.low)) // int(self.step or 1) + 1
        step = self.step
        if step is None:
            return math.inf if self.high > self.low else 1
        return math.floor((self.high - self.low) / step * (1 + 1e-12)) + 1

    def draw(self, rng: random.Random) -> Setting:
        """Return a random number, uniform on the linear or logarithmic scale."""
        if math.isfinite(self.size) and not self.log:
            return self._at(rng.randrange(int(self.size)))
        if not self.log:
            return rng.uniform(self.low, self.high)
        if not self.whole:
            drawn = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
            return min(max(drawn, self.low), self.high)
        # Widen the range by 0.5 at both ends, so that rounding does not make the ends rarer.
        drawn = math.exp(rng.uniform(math.log(self.low - 0.5), math.log(self.high + 0.5)))
        return int(min(max(round(drawn), self.low), self.high))

    def all(self) -> Iterator[Setting]:
        """Yield every number of a finite range."""
        for index in range(int(self.size)):
            yield self._at(index)

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if self.whole and not isinstance(value, int):
            return False
        if not self.low <= value <= self.high:
            return False
        if self.whole:
            return (value - int(self.low)) % int(self.step or 1) == 0
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return abs(steps - round(steps)) < 1e-8

    def distribution(self) -> BaseDistribution:
        """Return the parameter as an Optuna distribution."""
        from optuna.distributions import (  # noqa: PLC0415 - loaded lazily
            FloatDistribution,
            IntDistribution,
        )

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), self.log, int(self.step or 1))
        return FloatDistribution(self.low, self.high, self.log, self.step)

    def _at(self, index: int) -> Setting:
        if self.whole:
            return int(self.low) + index * int(self.step or 1)
        # Round, so that three steps of 0.1 give 0.3.
        return self.low if self.step is None else float(f"{self.low + index * self.step:.12g}")


Parameter = Choices | Numbers


class Space:
    """A set of named parameters with conditions.

    Args:
        parameters: Parameters by name; conditions name parameters of the space and form no cycle.

    Raises:
        ValueError: A condition names an unknown parameter or value, or conditions form a cycle.
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self.parameters = _ordered(parameters)
        self._conditions = {name for parameter in parameters.values() for name in parameter.when}

    def __repr__(self) -> str:
        size = self.size
        return f"<Space of {len(self.parameters)} parameters, {size or 'infinitely many'} networks>"

    @property
    def size(self) -> int | None:
        """Number of distinct configurations; None for infinitely many."""
        count = self._count([*self.parameters], 0, {})
        return None if count == math.inf else int(count)

    @property
    def is_conditional(self) -> bool:
        """Whether any parameter has a condition."""
        return bool(self._conditions)

    def corners(self) -> Iterator[dict[str, Setting]]:
        """Yield each value of each parameter alone; for a range, its two ends."""
        for name, parameter in self.parameters.items():
            for value in (
                parameter.values
                if isinstance(parameter, Choices)
                else (parameter.low, parameter.high)
            ):
                yield {name: value}

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return every parameter as an Optuna distribution."""
        return {name: parameter.distribution() for name, parameter in self.parameters.items()}

    def suggest(self, trial: Trial) -> dict[str, Setting]:
        """Let an Optuna trial suggest all active parameters, and return their values."""
        values: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if not self._is_active(name, values):
                continue
            if isinstance(parameter, Choices):
                values[name] = trial.suggest_categorical(name, parameter.values)
            elif parameter.whole:
                low, high = int(parameter.low), int(parameter.high)
                values[name] = trial.suggest_int(
                    name, low, high, step=int(parameter.step or 1), log=parameter.log
                )
            else:
                values[name] = trial.suggest_float(
                    name, parameter.low, parameter.high, step=parameter.step, log=parameter.log
                )
        return values

    def complete(self, values: Mapping[str, Setting], rng: random.Random) -> dict[str, Setting]:
        """Return a configuration with missing parameters drawn, and inactive ones removed."""
        completed: dict[str, Setting] = {}
        for name, parameter in self.parameters.items():
            if self._is_active(name, completed):
                completed[name] = values[name] if name in values else parameter.draw(rng)
        return completed

    def draw(self, rng: random.Random) -> dict[str, Setting]:
        """Return a random configuration, without inactive parameters."""
        return self.complete({}, rng)

    def key(self, values: Mapping[str, Setting]) -> str:
        """Return a text that two configurations share if, and only if, they are the same network.

        Inactive parameters are ignored.
        """
        used: dict[str, Setting] = {}
        for name in self.parameters:
            if name in values and self._is_active(name, used):
                used[name] = values[name]
        return json.dumps(used, sort_keys=True)

    def problems(self, values: Mapping[str, Setting]) -> list[str]:
        """Return why a configuration is outside the space; empty if it is inside."""
        used: dict[str, Setting] = {}
        problems = []
        for name, parameter in self.parameters.items():
            if not self._is_active(name, used):
                continue
            if name not in values:
                problems.append(f"{name} is missing")
                continue
            used[name] = values[name]
            if values[name] not in parameter:
                problems.append(f"{name} is {values[name]!r}, which is not in the space")
        return problems

    def walk(self) -> Iterator[dict[str, Setting]]:
        """Yield every configuration of a finite space."""
        yield from self._walk([*self.parameters], 0, {})

    def draw_unseen(
        self, seen: Mapping[str, object], rng: random.Random, *, tries: int = 200
    ) -> dict[str, Setting] | None:
        """Return a random configuration that is not in ``seen``; None if none is found.

        Args:
            seen: Known configurations, by their `key`; only the keys count.
            rng: Source of the random draws.
            tries: Number of draws before a small space is enumerated. Default 200.
        """
        size = self.size
        if size is not None and len(seen) >= size:
            return None
        for _ in range(tries):
            drawn = self.draw(rng)
            if self.key(drawn) not in seen:
                return drawn
        if size is None or size > _MAX_WALK:
            return None
        left = [values for values in self.walk() if self.key(values) not in seen]
        return rng.choice(left) if left else None

    @property
    def fingerprint(self) -> str:
        """A short hash of the space."""
        return fingerprint_of(self.to_record())

    def to_record(self) -> dict[str, Any]:
        """Return the space as JSON values."""
        return {
            name: json.loads(json.dumps(dataclasses.asdict(parameter)))
            for name, parameter in self.parameters.items()
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Space:
        """Build a space from the result of `to_record`."""
        parameters: dict[str, Parameter] = {}
        for name, fields in record.items():
            attributes = dict(fields)
            attributes["when"] = {key: tuple(values) for key, values in attributes["when"].items()}
            if "values" in attributes:
                parameters[name] = Choices(tuple(attributes["values"]), attributes["when"])
            else:
                parameters[name] = Numbers(**attributes)
        return cls(parameters)

    def _is_active(self, name: str, values: Mapping[str, Setting]) -> bool:
        return all(
            other in values and values[other] in wanted
            for other, wanted in self.parameters[name].when.items()
        )

    def _count(self, names: list[str], index: int, values: dict[str, Setting]) -> float:
        if index == len(names):
            return 1
        name = names[index]
        parameter = self.parameters[name]
        if not self._is_active(name, values):
            return self._count(names, index + 1, values)
        if name not in self._conditions:
            rest = self._count(names, index + 1, values)
            # Infinity times an int that is too large for a float raises OverflowError.
            return math.inf if math.inf in (parameter.size, rest) else parameter.size * rest
        if not math.isfinite(parameter.size):
            return math.inf
        # All values that no condition names activate the same parameters: count one of them.
        named = [value for value in self._named_in_conditions(name) if value in parameter]
        other = next((value for value in parameter.all() if value not in named), None)
        counts = [self._count(names, index + 1, {**values, name: value}) for value in named]
        if len(named) < parameter.size:
            rest = self._count(names, index + 1, {**values, name: other})
            counts.append(rest if rest == math.inf else rest * (int(parameter.size) - len(named)))
        return math.inf if math.inf in counts else sum(counts)

    def _named_in_conditions(self, name: str) -> list[Setting]:
        """Return the values of a parameter that conditions of other parameters name."""
        wanted = (
            value
            for parameter in self.parameters.values()
            for value in parameter.when.get(name, ())
        )
        return list(dict.fromkeys(wanted))

    def _walk(
        self, names: list[str], index: int, values: dict[str, Setting]
    ) -> Iterator[dict[str, Setting]]:
        if index == len(names):
            yield values
        elif not self._is_active(names[index], values):
            yield from self._walk(names, index + 1, values)
        else:
            for value in self.parameters[names[index]].all():
                yield from self._walk(names, index + 1, {**values, names[index]: value})


def fingerprint_of(record: Mapping[str, Any]) -> str:
    """Return the fingerprint of a recorded space, which may be from an older version."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _ordered(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Sort the parameters, each after the parameters that its condition names."""
    ordered: dict[str, Parameter] = {}
    left = dict(parameters)
    for name, parameter in parameters.items():
        for other, wanted in parameter.when.items():
            if other not in parameters:
                raise ValueError(
                    f"{name} is used when {other} is {', '.join(map(str, wanted))}, "
                    f"but {other} is not in the space"
                )
            if not all(value in parameters[other] for value in wanted):
                raise ValueError(
                    f"{name} is used when {other} is {', '.join(map(str, wanted))}, "
                    f"which {other} never is"
                )
    while left:
        ready = [
            name for name, parameter in left.items() if parameter.when.keys() <= ordered.keys()
        ]
        if not ready:
            raise ValueError(f"the conditions of {', '.join(left)} depend on one another")
        for name in ready:
            ordered[name] = left.pop(name)
    return ordered

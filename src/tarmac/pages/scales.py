"""Where a value lies on an axis, and which values are written beside it.

Example:
    >>> scale = scale_of(Axis("time", unit="s"), [0.0, 3600.0])
    >>> scale.place(1800.0)
    0.5
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from tarmac.pages.numbers import known, worded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
# Seconds that clocks count in; beyond them days.
_CLOCK = (
    *(15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0),
)
_DAY = 86400.0


@dataclasses.dataclass(frozen=True)
class Axis:
    """What an axis shows.

    Attributes:
        label: Its name; empty where the plot's title says it.
        unit: As `tarmac.pages.numbers.worded` takes it.
        is_log: Whether its steps multiply; values of 0 and below then have no place on it.
        low: Its beginning; that of the values if not given.
        high: Its end; that of the values if not given.
        is_whole: Whether only whole numbers are written beside it, as of epochs.
    """

    label: str = ""
    unit: str = ""
    is_log: bool = False
    low: float | None = None
    high: float | None = None
    is_whole: bool = False


@dataclasses.dataclass(frozen=True)
class Tick:
    """A value that is written beside an axis: where, from 0 to 1, and how."""

    place: float
    text: str


@dataclasses.dataclass(frozen=True)
class Scale:
    """An axis over its values: from ``low`` to ``high``, which differ."""

    axis: Axis
    low: float
    high: float

    def place(self, value: object) -> float | None:
        """Return where a value lies, 0 to 1 within the axis; None where it has no place on it."""
        number = known(value)
        if number is None or (self.axis.is_log and number <= 0):
            return None
        if self.axis.is_log:
            low, high, number = math.log(self.low), math.log(self.high), math.log(number)
        else:
            low, high = self.low, self.high
        return (number - low) / (high - low)

    def ticks(self, most: int = 6) -> list[Tick]:
        """Return round values along the axis, about as many as are asked for."""
        values = _powers(self.low, self.high, most) if self.axis.is_log else []
        if len(values) < 2:
            values = [*_round_values(self, most)]
        ticks = ((self.place(value), value) for value in values)
        return [
            Tick(place, worded(value, self.axis.unit))
            for place, value in ticks
            if place is not None and -1e-9 <= place <= 1 + 1e-9
        ]


def scale_of(axis: Axis, values: Iterable[object], *, room: float = 0.0) -> Scale:
    """Return the scale of an axis that shows all of some values.

    Args:
        axis: Axis to scale. Its own ``low`` and ``high`` take precedence over the values.
        values: Those that cannot be drawn are passed over; with none left the axis is 0 to 1.
        room: Share of the axis left free at an end that the axis does not say.
    """
    numbers = [number for number in map(known, values) if number is not None]
    if axis.is_log:
        numbers = [number for number in numbers if number > 0]
    low = min(numbers, default=1.0 if axis.is_log else 0.0) if axis.low is None else axis.low
    high = max(numbers, default=10.0 if axis.is_log else 1.0) if axis.high is None else axis.high
    if not high > low:
        # A single value, or an end that all values lie beyond: still an axis with room.
        room = abs(low) / 2 or 0.5
        low, high = (low / 2, low * 2) if axis.is_log else (low - room, low + room)
        low = axis.low if axis.low is not None and axis.low < high else low
    elif room:
        more = (high / low) ** room if axis.is_log else (high - low) * room
        if axis.low is None:
            low = low / more if axis.is_log else low - more
        if axis.high is None:
            high = high * more if axis.is_log else high + more
    return Scale(axis, low, high)


def _round_values(scale: Scale, most: int) -> Iterator[float]:
    step = _step(scale, most)
    first = math.ceil(scale.low / step - 1e-9)
    last = math.floor(scale.high / step + 1e-9)
    for count in range(first, min(last, first + 4 * most) + 1):
        yield count * step


def _step(scale: Scale, most: int) -> float:
    least = (scale.high - scale.low) / most
    if scale.axis.unit == "s" and least > 10:
        clock = next((step for step in _CLOCK if step >= least), None)
        if clock is not None:
            return clock
        return _DAY * _decimal_step(least / _DAY, is_whole=True)
    if scale.axis.unit == "bytes":
        power = 2.0 ** math.ceil(math.log2(least))
        return power if power > 0 else least
    return _decimal_step(least, is_whole=scale.axis.is_whole)


def _decimal_step(least: float, *, is_whole: bool) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in _STEPS if power * factor >= least * (1 - 1e-9))
    if is_whole:
        return float(max(1, math.ceil(step)))
    return step


def _powers(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / most))
    return [10.0**power for power in range(first, last + 1, every)]

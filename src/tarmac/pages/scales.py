"""Axes: the places of values, and the values to write beside them.

Example:
    >>> scale = scale_of(Axis("time", unit="s"), [0.0, 3600.0])
    >>> scale.place(1800.0)
    0.5
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

from tarmac.pages.numbers import known, worded

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
# Round steps for seconds. Larger steps are whole days.
_CLOCK = (
    *(15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0),
    *(3600.0, 7200.0, 10800.0, 21600.0, 43200.0),
)
_DAY = 86400.0


@dataclasses.dataclass(frozen=True)
class Axis:
    """The settings of an axis.

    Attributes:
        label: Name of the axis. Empty if the plot's title has it.
        unit: Unit of the values, in the form that `tarmac.pages.numbers.worded` takes.
        is_log: Whether the axis is logarithmic. Values of 0 and below then have no place on it.
        low: Lower end of the axis. Default: the smallest value.
        high: Upper end of the axis. Default: the largest value.
        is_whole: Whether ticks are whole numbers only, as for epochs. Default False.
    """

    label: str = ""
    unit: str = ""
    is_log: bool = False
    low: float | None = None
    high: float | None = None
    is_whole: bool = False


@dataclasses.dataclass(frozen=True)
class Tick:
    """A value beside an axis: its place, from 0 to 1, and its text."""

    place: float
    text: str


@dataclasses.dataclass(frozen=True)
class Scale:
    """An axis with its range, from ``low`` to a larger ``high``."""

    axis: Axis
    low: float
    high: float

    def place(self, value: object) -> float | None:
        """Return the place of a value, 0 to 1 within the axis, or None if it has none."""
        number = known(value)
        if number is None or (self.axis.is_log and number <= 0):
            return None
        if self.axis.is_log:
            low, high, number = math.log(self.low), math.log(self.high), math.log(number)
        else:
            low, high = self.low, self.high
        return (number - low) / (high - low)

    def ticks(self, most: int = 6) -> list[Tick]:
        """Return about ``most`` round values along the axis."""
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
    """Return the scale of an axis that fits all values.

    Args:
        axis: Axis to scale. Its own ``low`` and ``high`` take precedence over the values.
        values: Values to fit. Those that cannot be drawn are ignored. Without any value the axis
            is 0 to 1, or 1 to 10 if logarithmic.
        room: Share of the axis to leave free at an end that the axis does not set. Default 0.
    """
    numbers = [number for number in map(known, values) if number is not None]
    if axis.is_log:
        numbers = [number for number in numbers if number > 0]
    low = min(numbers, default=1.0 if axis.is_log else 0.0) if axis.low is None else axis.low
    high = max(numbers, default=10.0 if axis.is_log else 1.0) if axis.high is None else axis.high
    if not high > low:
        # The axis needs a range even for a single value, or if all values are beyond an end.
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

"""Numbers as text for people. An unknown number is ``-``.

Example:
    >>> worded(0.9832, "ratio"), worded(95.0, "s"), worded(None, "W")
    ('98.32 %', '1 min 35 s', '-')
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

from tarmac.runs import name_words

UNKNOWN = "-"

# A larger number is no measurement, and the product of two is infinite. A number below the inverse
# counts as 0.
_LARGEST = 1e150

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((86400, "d"), (3600, "h"), (60, "min"))


def known(value: object) -> float | None:
    """Return a number that can be drawn, or None for NaN, infinity and other values."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not abs(value) < _LARGEST:
        return None
    return float(value) if abs(value) > 1 / _LARGEST else 0.0


def worded(value: object, unit: str = "") -> str:
    """Return a number with its unit.

    Args:
        value: Number to write, of any type. A text, a bool, NaN and infinity become ``-``.
        unit: ``s`` for a duration, ``ratio`` for a share to show in percent, ``bytes``, or any
            other unit to write after the number. Default: none.
    """
    number = known(value)
    if number is None:
        return UNKNOWN
    if unit == "s":
        return _duration(number)
    if unit == "ratio":
        return f"{_percent(number * 100)} %"
    if unit == "bytes":
        return _bytes(number)
    return f"{_plain(number)} {unit}" if unit else _plain(number)


def unit_of(name: str) -> str:
    """Return the unit of a metric by its name, for `worded`; empty for an unknown unit."""
    if name.endswith("accuracy"):
        return "ratio"
    return "s" if name.endswith(("_s", "seconds")) and not name.endswith("per_s") else ""


def metric(name: str, value: object) -> str:
    """Return a metric's value with its unit, which the name determines."""
    return worded(value, unit_of(name))


def heading(name: str) -> str:
    """Return a metric's name as a heading: ``Validation accuracy``."""
    words = name_words(name)
    return words[:1].upper() + words[1:]


def moment(time: datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return UNKNOWN if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _plain(number: float) -> str:
    """Return a number with about four significant digits and separated thousands."""
    size = abs(number)
    if size >= 1e9 or 0 < size < 1e-4:
        return f"{number:.3e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    if size >= 1000 or number == int(number):
        return f"{number:,.0f}"
    text = f"{number:.{max(0, 3 - math.floor(math.log10(size)))}f}"
    return text.rstrip("0").rstrip(".")


def _percent(number: float) -> str:
    """Return a percentage with two decimals, or one significant digit below 0.01."""
    if 0 < abs(number) < 0.01:
        return f"{number:.1g}"
    return f"{number:,.2f}".rstrip("0").rstrip(".")


def _duration(seconds: float) -> str:
    """Return a duration in its two largest units."""
    sign, left = "-" if seconds < 0 else "", abs(seconds)
    if 0 < left < 1:
        return f"{sign}{_plain(round(left * 1000, 3))} ms"
    if left < 60:
        return f"{sign}{_seconds(left)}"
    left = round(left)
    for place, (length, unit) in enumerate(_SPANS):
        if left >= length:
            whole, rest = divmod(left, length)
            smaller, name = _SPANS[place + 1] if place + 1 < len(_SPANS) else (1, "s")
            more = f" {rest // smaller} {name}" if rest // smaller else ""
            return f"{sign}{whole:,} {unit}{more}"
    return f"{sign}{left} s"


def _seconds(seconds: float) -> str:
    return f"{_plain(round(seconds, 2 if seconds < 10 else 1))} s"


def _bytes(number: float) -> str:
    size, unit = abs(number), 0
    while size >= 1024 and unit + 1 < len(_BYTES):
        size, unit = size / 1024, unit + 1
    return f"{'-' if number < 0 else ''}{_plain(round(size, 1))} {_BYTES[unit]}"

"""Numbers for people, short enough for a column; None is ``-``, never 0."""

from __future__ import annotations

import math

UNKNOWN = "-"

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86400


def percent(ratio: float | None) -> str:
    """Return a ratio as a percentage, such as ``98%``."""
    return UNKNOWN if ratio is None or not math.isfinite(ratio) else f"{100 * ratio:.0f}%"


def gib(size: float | None) -> str:
    """Return bytes in GiB, such as ``70.1``."""
    if size is None:
        return UNKNOWN
    value = size / 2**30
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def whole(value: float | None) -> str:
    """Return a number without decimals."""
    return UNKNOWN if value is None or not math.isfinite(value) else f"{value:.0f}"


def decimal(value: float | None) -> str:
    """Return a loss or a metric with about four digits; ``nan`` is kept, as it matters."""
    if value is None:
        return UNKNOWN
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        return f"{value:.1e}"
    return f"{value:.4f}"[:6].rstrip(".")


def count(value: float | None) -> str:
    """Return a large number with a unit prefix, such as ``45.2k``."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{prefix}" if abs(value) < 1e12 else f"{value:.0e}"
    return f"{value:.3g}"


def duration(seconds: float | None) -> str:
    """Return a time in its two largest units, such as ``2h05m``."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    left = max(0, round(seconds))
    if left < _MINUTE_S:
        return f"{left}s"
    if left < _HOUR_S:
        minutes, rest = divmod(left, _MINUTE_S)
        return f"{minutes}m{rest:02}s" if minutes < 10 else f"{minutes}m"
    if left < _DAY_S:
        hours, rest = divmod(left, _HOUR_S)
        return f"{hours}h{rest // _MINUTE_S:02}m"
    days, rest = divmod(left, _DAY_S)
    return f"{days}d{rest // _HOUR_S:02}h"


def watt_hours(joules: float | None) -> str:
    """Return energy, such as ``412 Wh``."""
    if joules is None:
        return UNKNOWN
    value = joules / _HOUR_S
    return f"{value / 1000:.1f} kWh" if value >= 1000 else f"{value:.3g} Wh"

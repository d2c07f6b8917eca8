"""How long a task waits before its next attempt, and how many disturbances it bears."""

from __future__ import annotations

# Disturbances of one task that are borne.
MAX_DISTURBANCES = 10

# Longer pauses help nobody who waits; a pause that was asked for is kept all the same.
_LONGEST_PAUSE_S = 3600.0

# After a disturbance: a node or a whole site may be out of order for minutes.
_DISTURBED_PAUSE_S = 30.0
_LONGEST_DISTURBED_PAUSE_S = 600.0


def pause_s(backoff_s: float, number: int) -> float:
    """Return how long to wait after an attempt has failed, in seconds.

    Args:
        backoff_s: Seconds after the first failed attempt; doubled after each further attempt, up to
            an hour.
        number: Number of the failed attempt, from 1, without attempts that a disturbance ended.
    """
    # The largest power needed: beyond it, a pause of a microsecond has grown to an hour.
    doubled = backoff_s * 2.0 ** min(number - 1, 32)
    return min(doubled, max(backoff_s, _LONGEST_PAUSE_S))


def disturbed_pause_s(count: int) -> float:
    """Return how long to wait after a disturbance, in seconds.

    Args:
        count: How many there have been of this task, from 1.
    """
    # 2^5 half minutes are more than the longest pause.
    return min(_DISTURBED_PAUSE_S * 2.0 ** min(count - 1, 5), _LONGEST_DISTURBED_PAUSE_S)

"""Backoff times before a task's next attempt, and the limit of disturbances."""

from __future__ import annotations

# Maximum number of disturbances of one task.
MAX_DISTURBANCES = 10

# Maximum of the doubled backoff; a longer configured backoff is kept.
_LONGEST_PAUSE_S = 3600.0

# A node or a whole site may be out of order for minutes.
_DISTURBED_PAUSE_S = 30.0
_LONGEST_DISTURBED_PAUSE_S = 600.0


def pause_s(backoff_s: float, number: int) -> float:
    """Return the backoff after a failed attempt, in seconds.

    Args:
        backoff_s: Seconds after the first failed attempt; doubled after each further attempt, up to
            an hour.
        number: Number of the failed attempt, from 1, without attempts that a disturbance ended.
    """
    # With this power, even a backoff of a microsecond exceeds an hour.
    doubled = backoff_s * 2.0 ** min(number - 1, 32)
    return min(doubled, max(backoff_s, _LONGEST_PAUSE_S))


def disturbed_pause_s(count: int) -> float:
    """Return the backoff after a disturbance, in seconds.

    Args:
        count: Number of disturbances of this task so far, from 1.
    """
    # 2^5 half minutes exceed the longest backoff.
    return min(_DISTURBED_PAUSE_S * 2.0 ** min(count - 1, 5), _LONGEST_DISTURBED_PAUSE_S)

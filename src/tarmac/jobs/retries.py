"""What follows an attempt's end: a retry, a restart after a disturbance, or the task's end."""

from __future__ import annotations

import dataclasses

from tarmac.executors import DISTURBANCES, Cause
from tarmac.jobs.history import TaskHistory

# Maximum number of disturbances of one task.
MAX_DISTURBANCES = 10

# Maximum of the doubled backoff; a longer configured backoff is kept.
_LONGEST_PAUSE_S = 3600.0

# A node or a whole site may be out of order for minutes.
_DISTURBED_PAUSE_S = 30.0
_LONGEST_DISTURBED_PAUSE_S = 600.0


@dataclasses.dataclass(frozen=True)
class FollowUp:
    """What follows an attempt's end.

    Attributes:
        pause_s: Seconds until the next attempt; None where the task has ended.
        reason: Reason of the end for people; counts the disturbances where there were too many.
    """

    pause_s: float | None
    reason: str


def follow_up(
    past: TaskHistory,
    cause: Cause | None,
    reason: str,
    *,
    goes_on: bool,
    is_retried: bool,
    backoff_s: float = 0.0,
) -> FollowUp:
    """Return what follows an attempt's end; `TaskHistory.count` then counts the attempt.

    Args:
        past: Attempts of the task before this one.
        cause: Kind of failure; None for a success or a failure of the task's own.
        reason: Reason of the end for people; empty for a success.
        goes_on: Whether the task continues in the next attempt; see `Finished`.
        is_retried: Whether the task's own rules retry this end, unless it is a disturbance.
        backoff_s: Seconds before the first retry, doubled for each further one. Default 0.
    """
    if goes_on:
        return FollowUp(0.0, reason)
    if cause in DISTURBANCES:
        count = past.disturbances + 1
        if count > MAX_DISTURBANCES:
            return FollowUp(None, f"{reason}; disturbed {count} times")
        return FollowUp(disturbed_pause_s(count), reason)
    return FollowUp(pause_s(backoff_s, past.spent + 1) if is_retried else None, reason)


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

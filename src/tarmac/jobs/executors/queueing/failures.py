"""What many failures say together: of a host, and of a job that cannot work."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tarmac.jobs.executors.events import DISTURBANCES

if TYPE_CHECKING:
    from tarmac.jobs.executors.events import Cause, Finished

__all__ = ["FirstFailures", "Hosts"]

# Once may be chance, twice bad luck.
_MOST_ON_A_HOST = 3

_FIRST = 20
_QUICK_S = 30.0


class Hosts:
    """Which hosts to avoid.

    Those that have disturbed attempts thrice in the same way, and those whose GPUs a check has
    found unfit, which is no chance.
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Cause]] = Counter()
        self.excluded: set[str] = set()

    def note(self, finished: Finished) -> str:
        """Take note of how an attempt ended.

        Returns:
            Why a host is avoided from now on, in words; empty where none is by this one.
        """
        if finished.bad_host:
            is_known = finished.bad_host in self.excluded
            self.excluded.add(finished.bad_host)
            return "" if is_known else f"{finished.bad_host} gets no more of this session"
        if finished.attempt.task.resources.nodes > 1:
            # Its host is the first of them, or a list; whose fault it was is in words at most.
            return ""
        host, cause = finished.host, finished.cause
        # Whom a more important job displaces says nothing of the place.
        if not host or cause not in DISTURBANCES or cause == "preempted":
            return ""
        assert cause is not None
        self._counts[host, cause] += 1
        count = self._counts[host, cause]
        if count < _MOST_ON_A_HOST or host in self.excluded:
            return ""
        self.excluded.add(host)
        return f"{host} has disturbed {count} attempts so, and gets no more of this session"


class FirstFailures:
    """Whether the first attempts of a run have all failed at once for the same reason.

    A hundred thousand equal failures help nobody.
    """

    def __init__(self) -> None:
        self._count = 0
        self._reason: str | None = None
        self._is_settled = False

    def note(self, finished: Finished) -> str | None:
        """Take note of how an attempt ended; the reason once it was that of all the first."""
        if self._is_settled or finished.outcome == "interrupted":
            return None
        # A node that fails takes all with it that was there, which says nothing of the job.
        if finished.cause in DISTURBANCES:
            return None
        is_like = finished.outcome == "failed" and finished.seconds < _QUICK_S
        if not is_like or self._reason not in (None, finished.reason):
            self._is_settled = True
            return None
        self._reason = finished.reason
        self._count += 1
        if self._count < _FIRST:
            return None
        self._is_settled = True
        return finished.reason

"""What many failures say together: of a host, and of a job that cannot work."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from tarmac.jobs.executors.events import DISTURBANCES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tarmac.jobs.executors.events import Cause, Finished

# Once may be chance, twice bad luck.
_MAX_ON_A_HOST = 3

# A node that was repaired is used again in a session of weeks: events older than this do not count.
_REMEMBERED_S = 86_400.0

# Ends on a host within this are one event, such as a reboot, where no beginning is known.
_EVENT_S = 60.0

# A task that was not started on so many hosts is at fault itself.
_MAX_HOSTS = 3

_FIRST = 20
_QUICK_S = 30.0

# Whose fault it is that a task was not started.
Blame = Literal["host", "task"]


@dataclasses.dataclass
class _Starts:
    """How tasks were started on a host lately.

    Attributes:
        num_failed: Failures in a row.
        is_starting: Whether the last task was started.
    """

    num_failed: int = 0
    is_starting: bool = False


class Hosts:
    """Which hosts to avoid.

    Those that have disturbed attempts in three events of the same kind within a day, those that
    have failed to start three tasks in a row while others start such, and those whose GPUs a check
    has found unfit, which is no chance.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._events: dict[tuple[str, Cause], list[float]] = defaultdict(list)
        self._starts: dict[tuple[str, str], _Starts] = defaultdict(_Starts)
        self._tried: dict[int, set[str]] = defaultdict(set)
        self._blamed: dict[str, int] = defaultdict(int)
        self._never_starting: set[str] = set()
        self._unfit: set[str] = set()

    @property
    def excluded(self) -> set[str]:
        """The hosts to avoid now."""
        disturbing = {
            host
            for (host, _), times in self._events.items()
            if self._num_recent(times) >= _MAX_ON_A_HOST
        }
        return self._unfit | self._never_starting | disturbing

    def _num_recent(self, times: Sequence[float]) -> int:
        return sum(time_s > self._clock() - _REMEMBERED_S for time_s in times)

    def note(self, finished: Finished, began_at: float = 0.0) -> str:
        """Take note of how an attempt ended.

        Args:
            finished: Result of the attempt, with its host and cause.
            began_at: Time of its start, by the clock; 0 where unknown.

        Returns:
            Why a host is avoided from now on, in words; empty where none is by this one.
        """
        if finished.bad_host:
            is_known = finished.bad_host in self.excluded
            self._unfit.add(finished.bad_host)
            return "" if is_known else f"this session avoids {finished.bad_host} from now on"
        if finished.attempt.task.resources.nodes > 1:
            # Its host is the first of them, or a list; whose fault it was is in words at most.
            return ""
        host, cause = finished.host, finished.cause
        # Whom a more important job displaces says nothing of the place.
        if not host or cause not in DISTURBANCES or cause == "preempted":
            return ""
        assert cause is not None
        now = self._clock()
        times = self._events[host, cause]
        if times and (began_at <= times[-1] if began_at else now - times[-1] < _EVENT_S):
            return ""
        is_known = host in self.excluded
        times[:] = [*times[1 - _MAX_ON_A_HOST :], now]
        if is_known or host not in self.excluded:
            return ""
        return (
            f"{host} has disturbed tasks in {len(times)} events within a day: this session avoids "
            "it until the first of them is a day old"
        )

    def note_start(self, host: str, spec: str) -> None:
        """Note that a host has started a task of a spec: it starts tasks, again or still."""
        for key in ((host, spec), (host, "")):
            self._starts[key] = _Starts(is_starting=True)
        self._blamed.pop(host, None)
        self._never_starting.discard(host)

    def note_failed_start(self, host: str, spec: str) -> None:
        """Note, once of each attempt, that a host has not started it.

        Args:
            host: Host that did not start the attempt.
            spec: Name of the task's spec, where the agent wrote a record; empty where it wrote
                none.
        """
        for key in {(host, spec), (host, "")}:
            starts = self._starts[key]
            starts.num_failed, starts.is_starting = starts.num_failed + 1, False

    def blame(self, task: int, host: str, spec: str, *, may_tell: bool) -> Blame | None:
        """Return whose fault it is that a task was not started; None while others may tell.

        The host's, where another host starts such tasks. The task's, where it was not started on
        three hosts, or no other host starts such tasks.

        Args:
            task: Index of the task that was not started.
            host: Host that did not start the task.
            spec: The same text as for `note_failed_start`.
            may_tell: Whether other tasks may still show what hosts do.
        """
        if len(self._tried[task] | {host}) >= _MAX_HOSTS:
            return "task"
        others = [s for (other, of), s in self._starts.items() if of == spec and other != host]
        if any(starts.is_starting for starts in others):
            return "host"
        return None if may_tell and not others else "task"

    def charge(self, task: int, host: str, *, is_counted: bool = True) -> str:
        """Charge a host with a task that it has not started.

        Args:
            task: Index of the task that was not started.
            host: Host that did not start the task.
            is_counted: Whether it is another failure of the host.

        Returns:
            What follows, in words.
        """
        self._tried[task].add(host)
        self._blamed[host] += is_counted
        words = f"other hosts start such tasks, so this spends no retry and {host} is at fault"
        is_known = host in self.excluded
        if self._blamed[host] < _MAX_ON_A_HOST or is_known:
            return words
        self._never_starting.add(host)
        return (
            f"other hosts start such tasks, and {host} has not started {self._blamed[host]} in a "
            "row: this session avoids it until it starts one"
        )


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

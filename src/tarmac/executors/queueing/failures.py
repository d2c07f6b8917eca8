"""Conclusions from many failures: unfit hosts, and jobs that cannot work."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

from tarmac.executors.events import DISTURBANCES, Cause, Finished

# One or two failures may be chance.
_MAX_ON_A_HOST = 3

# Older events do not count: in a session of weeks, a repaired node must be used again.
_REMEMBERED_S = 86_400.0

# Where no start time is known, ends on a host within this time are one event, such as a reboot.
_EVENT_S = 60.0

# A task that failed to start on this many hosts is at fault itself.
_MAX_HOSTS = 3

_FIRST = 20
_QUICK_S = 30.0

# The party at fault for a failed start.
Blame = Literal["host", "task"]


@dataclasses.dataclass
class _Starts:
    """The recent starts of tasks on a host.

    Attributes:
        num_failed: Number of failed starts in a row.
        is_starting: Whether the last start succeeded.
    """

    num_failed: int = 0
    is_starting: bool = False


class Hosts:
    """The hosts to avoid.

    A host is avoided in three cases. It has disturbed attempts in three events of the same kind
    within a day. It has failed to start three tasks in a row while other hosts start such tasks. A
    check has found its GPUs unfit; once is enough, as that is no chance.

    Args:
        clock: Returns seconds that only increase. Default: `time.monotonic`.
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
        """Note how an attempt ended.

        Args:
            finished: Result of the attempt, with its host and cause.
            began_at: Time of its start, by the clock; 0 where unknown.

        Returns:
            Why the run avoids a host from now on, in words; empty where nothing changes.
        """
        if finished.bad_host:
            is_known = finished.bad_host in self.excluded
            self._unfit.add(finished.bad_host)
            return "" if is_known else f"this session avoids {finished.bad_host} from now on"
        if finished.attempt.task.resources.nodes > 1:
            # With several nodes, `host` is the first node or a list, so the bad host is unknown.
            return ""
        host, cause = finished.host, finished.cause
        # Preemption by a more important job says nothing about the host.
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
        """Note that a host has started a task of a spec, which clears its failed starts."""
        for key in ((host, spec), (host, "")):
            self._starts[key] = _Starts(is_starting=True)
        self._blamed.pop(host, None)
        self._never_starting.discard(host)

    def note_failed_start(self, host: str, spec: str) -> None:
        """Note that a host has failed to start an attempt; call once for each attempt.

        Args:
            host: Host that did not start the attempt.
            spec: Name of the task's spec, where the agent wrote a record; empty where it wrote
                none.
        """
        for key in {(host, spec), (host, "")}:
            starts = self._starts[key]
            starts.num_failed, starts.is_starting = starts.num_failed + 1, False

    def blame(self, task: int, host: str, spec: str, *, may_tell: bool) -> Blame | None:
        """Return whether host or task is at fault for a failed start; None while undecided.

        The host is at fault where another host starts such tasks. The task is at fault where three
        hosts failed to start it, or no other host starts such tasks.

        Args:
            task: Index of the task that was not started.
            host: Host that did not start the task.
            spec: The same text as for `note_failed_start`.
            may_tell: Whether other tasks may still show which hosts start such tasks.
        """
        if len(self._tried[task] | {host}) >= _MAX_HOSTS:
            return "task"
        others = [s for (other, of), s in self._starts.items() if of == spec and other != host]
        if any(starts.is_starting for starts in others):
            return "host"
        return None if may_tell and not others else "task"

    def charge(self, task: int, host: str, *, is_counted: bool = True) -> str:
        """Charge a host with a task that it failed to start.

        Args:
            task: Index of the task that was not started.
            host: Host that did not start the task.
            is_counted: Whether this is a further failure of the host.

        Returns:
            The consequence, in words.
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
    """Detects that the first attempts of a run have all failed quickly for the same reason.

    The run then stops before, say, a hundred thousand equal failures.
    """

    def __init__(self) -> None:
        self._count = 0
        self._reason: str | None = None
        self._is_settled = False

    def note(self, finished: Finished) -> str | None:
        """Note how an attempt ended; return the common reason once all first attempts share it."""
        if self._is_settled or finished.outcome == "interrupted":
            return None
        # A failing node ends all of its attempts alike, which says nothing about the job.
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

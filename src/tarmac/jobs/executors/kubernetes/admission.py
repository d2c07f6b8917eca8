"""Why a queue does not admit Jobs: Kueue's Workloads say it, and are asked for seldom."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.kubernetes import Refused, Silence, explain_workload, job_of_workload
from tarmac.masking import without_known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tarmac.kubernetes import Cluster

# Kueue has looked at a Job within that; one list is for all Jobs, and is made ever more seldom.
_FIRST_S, _LONGEST_S = 2.0, 60.0
_LONGEST_WORDS = 300


class Admission:
    """What keeps Jobs of queues from being admitted: quota, a queue that is not there.

    A login that may not list Workloads, and a cluster that has no such kind, say no reasons, and
    are not asked again.

    Args:
        cluster: Cluster that has the Jobs.
        clock: Seconds of some clock.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._next: float | None = None
        self._pause_s = _FIRST_S
        self._words: Mapping[str, str] = {}
        self._may_list = True

    def why(self, job: str, queue: str) -> str:
        """Return what a suspended Job of a queue waits for, in words.

        Args:
            job: Name of the suspended Job.
            queue: Name of its Kueue queue, from the Job's label.
        """
        now = self._clock()
        if self._next is None:
            self._next = now + self._pause_s
        if now >= self._next and self._may_list:
            self._pause_s = min(2 * self._pause_s, _LONGEST_S)
            self._next = now + self._pause_s
            self._ask()
        words = self._words.get(job, "")
        return f"waits in the queue {queue}" + (f": {words}" if words else "")

    def _ask(self) -> None:
        listed = self._cluster.list("Workload")
        if isinstance(listed, Refused):
            self._may_list = False
        elif not isinstance(listed, Silence):
            with contextlib.suppress(TarmacError):
                self._words = {
                    job_of_workload(workload): _short(explain_workload(workload))
                    for workload in listed.items
                }


def _short(words: str) -> str:
    words = without_known(words)
    return words if len(words) <= _LONGEST_WORDS else f"{words[: _LONGEST_WORDS - 1]}…"

"""The reason why a queue does not admit a Job, from Kueue's Workloads."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.kubernetes import NoAnswer, Refused, explain_workload, job_of_workload
from tarmac.masking import without_known

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster

# Kueue has mostly seen a Job before the first query. One query covers all Jobs; pauses double.
_FIRST_S, _LONGEST_S = 2.0, 60.0
_LONGEST_WORDS = 300


class Admission:
    """Explains why queues do not admit Jobs, such as a quota or a missing queue.

    A login that may not list Workloads gets no reasons, nor does a cluster without that kind. The
    query is then not repeated.

    Args:
        cluster: Cluster that has the Jobs.
        clock: Returns seconds that only increase. Default: `time.monotonic`.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._next: float | None = None
        self._pause_s = _FIRST_S
        self._words: Mapping[str, str] = {}
        self._may_list = True

    def why(self, job: str, queue: str) -> str:
        """Return why a suspended Job of a queue waits, in words.

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
        elif not isinstance(listed, NoAnswer):
            with contextlib.suppress(TarmacError):
                self._words = {
                    job_of_workload(workload): _short(explain_workload(workload))
                    for workload in listed.items
                }


def _short(words: str) -> str:
    words = without_known(words)
    return words if len(words) <= _LONGEST_WORDS else f"{words[: _LONGEST_WORDS - 1]}…"

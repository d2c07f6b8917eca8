"""The reason why a Job has fewer pods than it wants, from the Job's events."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.executors.kubernetes.pods import SeenJob
from tarmac.kubernetes import NoAnswer, Refused, explain_creation

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster, Object

# A Job normally has its pods before the first query. Later pauses double up to the longest.
_FIRST_S, _LONGEST_S = 2.0, 60.0


class Creation:
    """Explains why Jobs make no pods, such as a quota or a webhook.

    Only a Job that lacks pods causes queries. A login that may not list events gets no reasons, and
    the query is not repeated.

    Args:
        cluster: Cluster that has the Jobs.
        clock: Returns seconds that only increase. Default: `time.monotonic`.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._next: dict[str, tuple[float, float]] = {}
        self._words: dict[str, str] = {}
        self._may_list = True

    def why(self, job: SeenJob) -> str:
        """Return why a Job lacks pods, in words; empty where it lacks none or nothing is known."""
        if not job.lacks_pods:
            self._next.pop(job.name, None)
            self._words.pop(job.name, None)
            return ""
        now = self._clock()
        when, pause_s = self._next.setdefault(job.name, (now + _FIRST_S, _FIRST_S))
        if now >= when and self._may_list:
            self._next[job.name] = now + pause_s, min(2 * pause_s, _LONGEST_S)
            self._ask(job.name)
        return self._words.get(job.name, "")

    def _ask(self, job: str) -> None:
        fields = f"involvedObject.kind=Job,involvedObject.name={job}"
        events = self._cluster.list("Event", fields=fields)
        if isinstance(events, Refused):
            self._may_list = False
        elif not isinstance(events, NoAnswer):
            with contextlib.suppress(TarmacError):
                words = explain_creation(sorted(events.items, key=_when))
                self._words[job] = f"its Job creates no pod: {words}" if words else ""


def _when(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")

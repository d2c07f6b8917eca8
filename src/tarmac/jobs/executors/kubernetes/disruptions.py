"""What others' needs have ended, and the cluster begins again."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tarmac.jobs.executors.kubernetes.making import demand_in
from tarmac.jobs.executors.queueing import Ending

if TYPE_CHECKING:
    from tarmac.jobs.executors.kubernetes.pods import SeenJob, SeenPod
    from tarmac.jobs.executors.queueing import ChunkRecord, UnitName


class Disruptions:
    """How pods of units were ended for others' needs, kept when pods say so no longer."""

    def __init__(self) -> None:
        self._known: dict[UnitName, dict[str, Ending]] = {}

    def note(
        self, chunk: ChunkRecord, unit: UnitName, job: SeenJob | None, pod: SeenPod
    ) -> SeenPod:
        """Return a unit's pod with how others' needs end it, as the watches show it."""
        known = self._known.setdefault(unit, {})
        if pod.phase == "Succeeded":
            known.pop(pod.name, None)
            return pod
        disruption = pod.disruption or known.get(pod.name) or _evicted(chunk, job, pod)
        if disruption is None:
            return pod
        known[pod.name] = disruption
        return dataclasses.replace(pod, told=disruption)

    def last(self, unit: UnitName) -> Ending | None:
        """Return how the last of a unit's pods was ended for others' needs; None where none was."""
        return next(reversed(self._known.get(unit, {}).values()), None)

    def restarts(self, unit: UnitName, pod: SeenPod) -> int:
        """Return how many pods of a unit were ended so, beside this one."""
        return len([name for name in self._known.get(unit, {}) if name != pod.name])

    def forget(self, unit: UnitName) -> None:
        """Forget a unit that is over."""
        self._known.pop(unit, None)


def _evicted(chunk: ChunkRecord, job: SeenJob | None, pod: SeenPod) -> Ending | None:
    """Return how a pod ends whose Job its queue has suspended again; None where that has not.

    The Jobs' watch may show for a while after the pods' one that the Job is not admitted yet.
    Suspending a Job deletes its pods, by which the two are told apart.
    """
    queue = demand_in(chunk).queue
    if job is None or not job.is_suspended or not queue or not pod.is_deleted:
        return None
    return Ending("preempted", f"the queue {queue} has taken its place back", pod.host, pod.name)

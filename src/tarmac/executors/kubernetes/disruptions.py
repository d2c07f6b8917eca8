"""The disruptions of pods, after which the cluster starts new pods."""

from __future__ import annotations

import dataclasses

from tarmac.executors.kubernetes.making import demand_in
from tarmac.executors.kubernetes.pods import SeenJob, SeenPod
from tarmac.executors.queueing import ChunkRecord, Ending, UnitName


class Disruptions:
    """The disruptions of units' pods, kept after the pods stop showing them."""

    def __init__(self) -> None:
        self._known: dict[UnitName, dict[str, Ending]] = {}

    def note(
        self, chunk: ChunkRecord, unit: UnitName, job: SeenJob | None, pod: SeenPod
    ) -> SeenPod:
        """Return a unit's pod with its disruption, as far as the watches have shown one."""
        known = self._known.setdefault(unit, {})
        if pod.phase == "Succeeded":
            known.pop(pod.name, None)
            return pod
        disruption = pod.disruption or known.get(pod.name) or _evicted(chunk, job, pod)
        if disruption is None:
            return pod
        known[pod.name] = disruption
        return dataclasses.replace(pod, reported_disruption=disruption)

    def last(self, unit: UnitName) -> Ending | None:
        """Return the last disruption of a unit's pods; None for none."""
        return next(reversed(self._known.get(unit, {}).values()), None)

    def restarts(self, unit: UnitName, pod: SeenPod) -> int:
        """Return the number of a unit's disrupted pods, beside this pod."""
        return len([name for name in self._known.get(unit, {}) if name != pod.name])

    def forget(self, unit: UnitName) -> None:
        """Forget a unit that is over."""
        self._known.pop(unit, None)


def preemption_by(queue: str, host: str, pod: str = "") -> Ending:
    """Return the ending of pods whose Kueue queue has suspended their Job again."""
    return Ending("preempted", f"the queue {queue} has preempted it", host, pod)


def _evicted(chunk: ChunkRecord, job: SeenJob | None, pod: SeenPod) -> Ending | None:
    """Return the preemption of a pod whose Job its queue has suspended again; None for none.

    The watch of Jobs may lag the watch of pods and still show a Job as not admitted. Unlike a
    pending admission, a suspension deletes the Job's pods.
    """
    queue = demand_in(chunk).queue
    if job is None or not job.is_suspended or not queue or not pod.is_deleted:
        return None
    return preemption_by(queue, pod.host, pod.name)

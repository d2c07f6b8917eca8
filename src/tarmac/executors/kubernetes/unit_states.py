"""The states of units and how they ended, from the pods and Jobs that the watches show."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tarmac.executors.events import Cause
from tarmac.executors.kubernetes.admission import Admission
from tarmac.executors.kubernetes.creation import Creation
from tarmac.executors.kubernetes.delays import Delays
from tarmac.executors.kubernetes.disruptions import Disruptions
from tarmac.executors.kubernetes.groups import Group
from tarmac.executors.kubernetes.making import demand_in
from tarmac.executors.kubernetes.manifests import OF_JOBSET
from tarmac.executors.kubernetes.mirrors import Mirrors
from tarmac.executors.kubernetes.pods import SeenJob, SeenPod, keep_pod
from tarmac.executors.kubernetes.task_pods import OF_JOB
from tarmac.executors.queueing import ChunkRecord, Ending, Shown, UnitName
from tarmac.kubernetes import NoAnswer, Refused

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster

# Causes that a deleted pod may show too, so that they do not rule out a deleted Job.
_SAYS_NO_REASON: frozenset[Cause | None] = frozenset({None, "exit", "signal", "start", "lost"})


class UnitStates:
    """The states of a run's units.

    Args:
        cluster: Connection to the cluster, in the namespace of the run's Jobs.
        mirrors: Logs and records of pods that do not see the run's directory.
    """

    def __init__(self, cluster: Cluster, mirrors: Mirrors) -> None:
        self._cluster = cluster
        self._mirrors = mirrors
        self._creation = Creation(cluster)
        self._admission = Admission(cluster)
        self._seen_jobs: set[str] = set()
        self._endings: dict[UnitName, Ending] = {}
        self._disruptions = Disruptions()
        self._groups: dict[str, Group] = {}
        self._unwanted: set[UnitName] = set()
        self._delays = Delays()
        self._deleted: set[str] = set()

    def show(
        self,
        chunk: ChunkRecord,
        job: SeenJob | None,
        newest: Mapping[tuple[str, int], SeenPod],
    ) -> Mapping[UnitName, Shown]:
        """Return the states of a chunk's units.

        Args:
            chunk: Chunk whose units to show.
            job: Job of the chunk; None where no watch shows it.
            newest: Newest pod of each index, by the name of its Job and the index.
        """
        if job is not None:
            self._seen_jobs.add(chunk.name)
        nodes = demand_in(chunk).nodes
        if nodes > 1:
            there = {rank: newest.get((chunk.name, rank)) for rank in range(nodes)}
            group = self._groups.setdefault(chunk.name, Group(nodes))
            group.see({rank: pod for rank, pod in there.items() if pod is not None})
            together = self._show_group(chunk, job, group)
            if together is None:
                return {}
            return {UnitName(chunk.number, 0): self._explained(chunk, job, together)}
        shown: dict[UnitName, Shown] = {}
        for index in range(chunk.num_units):
            unit = UnitName(chunk.number, index)
            state = self._show(chunk, unit, job, newest.get((chunk.name, index)))
            if state is not None:
                shown[unit] = self._explained(chunk, job, state)
        return shown

    def ending(self, chunk: ChunkRecord, unit: UnitName, job: SeenJob | None) -> Ending | None:
        """Return how a unit ended; None where nothing shows it."""
        known = self._reason(chunk, job, self._endings.get(unit))
        if known is None or known.cause in (None, "lost"):
            # A pod that is gone may have been disrupted; a pod that was seen to fail has its
            # own reason.
            known = self._disruptions.last(unit) or known
        return known

    def last_disruption(self, unit: UnitName) -> Ending | None:
        """Return the last disruption of a unit's pods; None for none."""
        return self._disruptions.last(unit)

    def end(self, units: Iterable[UnitName]) -> None:
        """Delete the pods of units from now on, wherever the watches show one."""
        self._unwanted.update(units)

    def forget(self, chunk: ChunkRecord) -> None:
        """Forget a chunk that is over."""
        self._groups.pop(chunk.name, None)
        for index in range(chunk.num_units):
            unit = UnitName(chunk.number, index)
            self._mirrors.forget(unit)
            self._endings.pop(unit, None)
            self._disruptions.forget(unit)
            self._unwanted.discard(unit)

    def _explained(self, chunk: ChunkRecord, job: SeenJob | None, shown: Shown) -> Shown:
        if shown.phase != "over":
            return shown
        return dataclasses.replace(shown, ending=self._reason(chunk, job, shown.ending))

    def _reason(
        self, chunk: ChunkRecord, job: SeenJob | None, ending: Ending | None
    ) -> Ending | None:
        """Return a unit's ending, or a deleted Job where the pods' ending gives no reason."""
        is_open = ending is None or ending.cause in _SAYS_NO_REASON
        if job is not None:
            # The watch of Jobs may lag the watch of pods, which are deleted with their Job.
            is_ended = ending is not None and ending.cause in ("lost", "signal", "start")
            is_deleted = is_ended and self._is_going(chunk)
        else:
            is_deleted = is_open and self._was_deleted(chunk)
        return Ending("cancelled", "its Job was deleted in the cluster") if is_deleted else ending

    def _is_going(self, chunk: ChunkRecord) -> bool:
        """Return whether the cluster has no Job of a chunk any more, or is deleting it."""
        job = self._cluster.get(demand_in(chunk).kind, chunk.name)
        if job is None:
            return True
        return isinstance(job, dict) and "deletionTimestamp" in job["metadata"]

    def _was_deleted(self, chunk: ChunkRecord) -> bool:
        """Return whether a Job that no watch shows was deleted, rather than not shown yet."""
        # The Job may have come and gone between two polls.
        kind = demand_in(chunk).kind
        if chunk.name not in self._seen_jobs and self._cluster.get(kind, chunk.name) is None:
            self._seen_jobs.add(chunk.name)
        return chunk.name in self._seen_jobs

    def _show(
        self, chunk: ChunkRecord, unit: UnitName, job: SeenJob | None, pod: SeenPod | None
    ) -> Shown | None:
        if pod is not None:
            pod = self._disruptions.note(chunk, unit, job, pod)
            shown = self._show_pod(chunk, unit, pod)
            if shown is not None:
                return shown
        elif self._take_vanished(chunk, unit, job):
            return Shown("over", chunk.name, ending=self._endings.get(unit))
        return None if job is None else self._show_podless(chunk, unit, job)

    def _show_podless(self, chunk: ChunkRecord, unit: UnitName, job: SeenJob) -> Shown:
        """Show a unit that has no pod now, from its Job."""
        is_counted = unit.unit in job.completed or unit.unit in job.failed
        if is_counted and unit not in self._endings and self._has_pod(chunk, unit):
            return Shown("running", chunk.name)
        if unit.unit in job.completed:
            # The pod may be deleted before any watch has shown its end.
            is_unheard = unit not in self._endings and not demand_in(chunk).claim
            is_heard = not is_unheard or self._mirrors.end_vanished(chunk, unit)
            if not is_heard and self._mirrors.is_reading(chunk, unit):
                return Shown("running", chunk.name)
            ending = self._endings.setdefault(unit, Ending(None, "Complete"))
            return Shown("over", chunk.name, ending=ending)
        if unit.unit in job.failed or job.problem:
            words = job.problem or "its pod is gone, and its result is unknown"
            ending = self._endings.setdefault(unit, Ending("lost", words))
            return Shown("over", chunk.name, ending=ending)
        last = self._disruptions.last(unit)
        words = f"starts again: {last.words}" if last else ""
        return Shown("waiting", chunk.name, self._held(chunk, job) or words)

    def _show_pod(self, chunk: ChunkRecord, unit: UnitName, pod: SeenPod) -> Shown | None:
        is_mirrored = not demand_in(chunk).claim
        if unit in self._unwanted and not pod.is_over and pod.name not in self._deleted:
            self._delete(pod)
        if not pod.is_over and self._delays.is_overdue(pod):
            # A Job waits forever for the end of a pod whose node does not answer. Once the node is
            # back, the Job may replace the pod; by then another attempt is at work.
            self._unwanted.add(unit)
            self._delete(pod)
            cause: Cause = "node" if pod.matter == "node" else "start"
            self._endings[unit] = Ending(cause, pod.reason, pod.host)
            return Shown("over", chunk.name, host=pod.host, ending=self._endings[unit])
        if pod.phase == "Pending":
            return Shown("waiting", chunk.name, pod.reason, pod.host)
        restarts = self._disruptions.restarts(unit, pod)
        if not pod.is_over:
            if is_mirrored and not self._mirrors.begin(chunk, unit, pod, restarts=restarts):
                self._delete(pod)
            return Shown("running", chunk.name, host=pod.host)
        if is_mirrored and not self._mirrors.end(chunk, unit, pod, restarts=restarts):
            return Shown("running", chunk.name, host=pod.host)
        self._delete(pod)
        if pod.disruption is not None:
            return None
        assert pod.ending is not None
        self._endings[unit] = pod.ending
        return Shown("over", chunk.name, host=pod.host, ending=pod.ending)

    def _show_group(  # noqa: PLR0911 - a row for each thing that may be so
        self, chunk: ChunkRecord, job: SeenJob | None, group: Group
    ) -> Shown | None:
        """Show an attempt on several nodes, which is one unit."""
        unit = UnitName(chunk.number, 0)
        if unit in self._endings:
            return Shown("over", chunk.name, host=group.host, ending=self._endings[unit])
        for pod in group.live:
            if unit in self._unwanted:
                self._delete(pod)
            if self._delays.is_overdue(pod):
                cause: Cause = "node" if pod.matter == "node" else "start"
                self._endings[unit] = Ending(cause, pod.reason, pod.host)
                return Shown("over", chunk.name, host=pod.host, ending=self._endings[unit])
        is_mirrored = not demand_in(chunk).claim
        if is_mirrored and not self._mirrors.follow_group(chunk, unit, group):
            self._unwanted.add(unit)
        problem = job.problem if job is not None else ""
        is_taken_back = job is not None and job.is_suspended and group.is_deleted
        queue = demand_in(chunk).queue if is_taken_back else ""
        is_completed = job is not None and len(job.completed) == group.size
        # The first pod's log has the record of the end.
        if is_completed and 0 not in group.pods and self._has_pod(chunk, unit):
            return Shown("running", chunk.name, host=group.host)
        if group.phase == "over" or (not group.live and (problem or is_completed)):
            if is_mirrored and not self._mirrors.end_group(chunk, unit, group):
                return Shown("running", chunk.name, host=group.host)
            is_known = bool(group.pods) or not is_completed
            ending = group.ending(problem, queue) if is_known else Ending(None, "Complete")
            self._endings[unit] = ending
            return Shown("over", chunk.name, host=group.host, ending=ending)
        if group.phase == "running":
            return Shown("running", chunk.name, host=group.host)
        if job is None and not group.pods:
            return None
        held = self._held(chunk, job) if job is not None else ""
        return Shown("waiting", chunk.name, held or group.reason, group.host)

    def _held(self, chunk: ChunkRecord, job: SeenJob) -> str:
        """Return why a Job makes no pods, in words; empty where no reason is known."""
        if job.is_suspended:
            queue = demand_in(chunk).queue
            return self._admission.why(job.made, queue) if queue else ""
        return self._creation.why(job)

    def _take_vanished(self, chunk: ChunkRecord, unit: UnitName, job: SeenJob | None) -> bool:
        """Record the end of a pod that is gone for good; return whether an end is known.

        The pod was ended here, or its Job was deleted. A unit with an ending needs no further
        record.
        """
        if unit not in self._unwanted and (job is not None or chunk.name not in self._seen_jobs):
            return False
        if unit in self._endings:
            return True
        return self._mirrors.end_vanished(chunk, unit)

    def _has_pod(self, chunk: ChunkRecord, unit: UnitName) -> bool:
        """Return whether a unit has a pod that the watch of pods does not show yet."""
        label = OF_JOBSET if demand_in(chunk).kind == "JobSet" else OF_JOB
        listed = self._cluster.list("Pod", labels=f"{label}={chunk.name}")
        if isinstance(listed, (Refused, NoAnswer)):
            return isinstance(listed, NoAnswer)
        pods = map(keep_pod, listed.items)
        return any(pod.index == unit.unit and pod.name not in self._deleted for pod in pods)

    def _delete(self, pod: SeenPod) -> None:
        if pod.name in self._deleted:
            return
        answer = self._cluster.delete("Pod", pod.name)
        if not isinstance(answer, NoAnswer):
            self._deleted.add(pod.name)

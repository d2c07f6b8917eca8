"""Kubernetes as an engine: chunks are Indexed Jobs, units are pods, two watches show both."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.executors.events import Cause
from tarmac.executors.kubernetes.admission import Admission
from tarmac.executors.kubernetes.creation import Creation
from tarmac.executors.kubernetes.delays import Delays
from tarmac.executors.kubernetes.demand import Demand, demand_of
from tarmac.executors.kubernetes.disruptions import Disruptions
from tarmac.executors.kubernetes.groups import Group
from tarmac.executors.kubernetes.making import JobMaker, demand_in, silent
from tarmac.executors.kubernetes.manifests import OF_JOBSET, RUN
from tarmac.executors.kubernetes.mirrors import Mirrors
from tarmac.executors.kubernetes.nodes import with_gpus
from tarmac.executors.kubernetes.options import options_of
from tarmac.executors.kubernetes.pods import SeenJob, SeenPod, keep_job, keep_pod
from tarmac.executors.kubernetes.task_pods import OF_JOB
from tarmac.executors.queueing import (
    Accepted,
    ChunkFiles,
    ChunkRecord,
    ClusterId,
    Ending,
    Full,
    Refused,
    Shown,
    Silent,
    Terms,
    TooLarge,
    UnitName,
    run_code,
)
from tarmac.kubernetes import NoAnswer
from tarmac.kubernetes import Refused as Denied
from tarmac.tasks.model import Secret
from tarmac.tasks.plan import Task

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster

MAX_UNITS = 1000

# Causes that a deleted pod may show too, so that they do not rule out a deleted Job.
_SAYS_NO_REASON: frozenset[Cause | None] = frozenset({None, "exit", "signal", "start", "lost"})

# Wait for the first lists of the watches before no answer is reported.
_NOT_YET_S = 20.0


def cluster_of(cluster: Cluster) -> ClusterId | None:
    """Return a cluster's identity, the uid of kube-system and its address; None for no answer."""
    namespace = cluster.get("Namespace", "kube-system")
    if isinstance(namespace, NoAnswer):
        return None
    # A login for a single namespace gets a refusal here.
    uid = str(namespace["metadata"]["uid"]) if isinstance(namespace, dict) else ""
    context = shlex.quote(cluster.context) if cluster.context else ""
    way = f"kubectl config use-context {context} &&" if context else ""
    return ClusterId(cluster.server, uid, way)


class KubernetesEngine:
    """A namespace of a cluster as the engine for the chunks of one run.

    Args:
        cluster: Connection to the cluster, in the namespace where Jobs are made.
        run: The run's directory; its path determines the code that labels all objects of the run.
        agent: The agent's file, for pods that see the run's directory.
        files: Chunk files of the run.
        mapping: Secrets of this machine, by the name that job files use.
        values: Returns the values of some variables of a task, by its index, from this machine.
        heard: Function to call, from any thread, when the cluster has news.
    """

    title = "Kubernetes"
    keeps_units = True

    def __init__(
        self,
        cluster: Cluster,
        *,
        run: Path,
        agent: Path,
        files: ChunkFiles,
        mapping: Mapping[str, Secret],
        values: Callable[[int, Iterable[str]], Mapping[str, bytes]],
        heard: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._code = run_code(run)
        self._mapping = mapping
        self._jobs_made = JobMaker(cluster, run=self._code, agent=agent, files=files, values=values)
        # GPU names by kind and resource of a task, so that each is queried once.
        self._gpus: dict[tuple[str, str], Demand] = {}
        self._heard = heard
        self.most_units = MAX_UNITS
        self._mirrors = Mirrors(cluster, files, heard)
        self._creation = Creation(cluster)
        self._admission = Admission(cluster)
        labels = f"{RUN}={self._code}"
        self._pods = cluster.watch("Pod", labels, keep=keep_pod)
        self._jobs = cluster.watch("Job", labels, keep=keep_job)
        self._cluster_id: ClusterId | None = None
        self._has_begun = False
        self._is_closed = threading.Event()
        self._known: dict[str, ChunkRecord] = {}
        self._seen_jobs: set[str] = set()
        self._endings: dict[UnitName, Ending] = {}
        self._disruptions = Disruptions()
        self._groups: dict[str, Group] = {}
        self._unwanted: set[UnitName] = set()
        self._delays = Delays()
        self._deleted: set[str] = set()

    def close(self) -> None:
        """Close the watches and the connection."""
        self._is_closed.set()
        if self._has_begun:
            self._pods.close()
            self._jobs.close()
        self._cluster.close()

    def cluster(self) -> ClusterId | None:
        """Return the cluster's identity; see `Engine`."""
        if self._cluster_id is None:
            self._cluster_id = cluster_of(self._cluster)
        return self._cluster_id

    def shape(self, task: Task) -> Mapping[str, Any]:
        """Return the demand of a task's pods; see `Engine`."""
        demand = demand_of(task, self._mapping)
        if demand.gpus:
            key = demand.gpu_type, demand.gpu_resource
            if key not in self._gpus:
                self._gpus[key] = with_gpus(demand, self._cluster)
            resolved = self._gpus[key]
            demand = dataclasses.replace(
                demand,
                gpu_resource=resolved.gpu_resource,
                gpu_labels=resolved.gpu_labels,
                gpu_type=resolved.gpu_type,
            )
        return dataclasses.asdict(demand)

    def terms(self, task: Task) -> Terms:
        """Return the demands of a task's options; see `Engine`."""
        return Terms(pending_limit_s=options_of(task).pending_limit)

    def submit(
        self, chunk: ChunkRecord, *, most_at_once: int | None, excluded: Collection[str]
    ) -> Accepted | Full | TooLarge | Refused | Silent:
        """Make a chunk's Job; see `Engine`."""
        self._begin()
        return self._jobs_made.make(chunk, most_at_once=most_at_once, excluded=excluded)

    def find(self, chunk: ChunkRecord) -> Accepted | Silent | None:
        """Find a chunk's Job by its name; see `Engine`."""
        self._begin()
        return self._jobs_made.find(chunk)

    def look(self, chunks: Sequence[ChunkRecord]) -> Mapping[UnitName, Shown] | Silent:
        """Return the units that the watches show, without a query; see `Engine`."""
        self._begin()
        self._sweep({chunk.name for chunk in chunks})
        pods, jobs = self._pods.look(), self._look_at_jobs()
        end = time.monotonic() + _NOT_YET_S
        while isinstance(pods, NoAnswer) or isinstance(jobs, NoAnswer):
            silence = pods if isinstance(pods, NoAnswer) else jobs
            assert isinstance(silence, NoAnswer)
            if "not listed yet" not in silence.words or time.monotonic() > end:
                return silent(silence)
            self._is_closed.wait(0.05)
            pods, jobs = self._pods.look(), self._look_at_jobs()
        newest: dict[tuple[str, int], SeenPod] = {}
        for pod in pods.values():
            before = newest.get((pod.job, pod.index))
            if before is None or _is_newer(pod, before):
                newest[pod.job, pod.index] = pod
        shown: dict[UnitName, Shown] = {}
        for chunk in chunks:
            self._known[chunk.name] = chunk
            job = jobs.get(chunk.name)
            if job is not None:
                self._seen_jobs.add(chunk.name)
            nodes = demand_in(chunk).nodes
            if nodes > 1:
                there = {rank: newest.get((chunk.name, rank)) for rank in range(nodes)}
                group = self._groups.setdefault(chunk.name, Group(nodes))
                group.see({rank: pod for rank, pod in there.items() if pod is not None})
                together = self._show_group(chunk, job, group)
                if together is not None:
                    shown[UnitName(chunk.number, 0)] = self._explained(chunk, job, together)
                continue
            for index in range(chunk.num_units):
                unit = UnitName(chunk.number, index)
                state = self._show(chunk, unit, job, newest.get((chunk.name, index)))
                if state is not None:
                    shown[unit] = self._explained(chunk, job, state)
        return shown

    def _explained(self, chunk: ChunkRecord, job: SeenJob | None, shown: Shown) -> Shown:
        if shown.phase != "over":
            return shown
        return dataclasses.replace(shown, ending=self._reason(chunk, job, shown.ending))

    def endings(
        self, units: Iterable[tuple[ChunkRecord, int]]
    ) -> Mapping[UnitName, Ending] | Silent:
        """Return the endings of units, as the watches have shown them; see `Engine`."""
        jobs = self._look_at_jobs()
        if isinstance(jobs, NoAnswer):
            return silent(jobs)
        endings: dict[UnitName, Ending] = {}
        for chunk, number in units:
            unit = UnitName(chunk.number, number)
            known = self._reason(chunk, jobs.get(chunk.name), self._endings.get(unit))
            if known is None or known.cause in (None, "lost"):
                # A pod that is gone may have been disrupted; a pod that was seen to fail has its
                # own reason.
                known = self._disruptions.last(unit) or known
            if known is not None:
                endings[unit] = known
        return endings

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

    def final_status(self, chunk: ChunkRecord, unit: int) -> Ending | None:
        """Return the last disruption of a unit's pods; see `Engine`."""
        return self._disruptions.last(UnitName(chunk.number, unit))

    def cancel(
        self, units: Sequence[tuple[ChunkRecord, int]] = (), chunks: Sequence[ChunkRecord] = ()
    ) -> Silent | None:
        """Delete units' pods, or chunks' Jobs; see `Engine`."""
        self._begin()
        pods = self._pods.look()
        wanted = {
            (chunk.name, pod)
            for chunk, number in units
            for pod in ([number] if demand_in(chunk).nodes == 1 else range(demand_in(chunk).nodes))
        }
        self._unwanted |= {UnitName(chunk.number, number) for chunk, number in units}
        for chunk in chunks:
            self._unwanted |= {UnitName(chunk.number, i) for i in range(chunk.num_units)}
        if isinstance(pods, NoAnswer):
            return silent(pods)
        for pod in pods.values():
            if (pod.job, pod.index) in wanted and not pod.is_over:
                answer = self._cluster.delete("Pod", pod.name)
                if isinstance(answer, NoAnswer):
                    return silent(answer)
        for chunk in chunks:
            answer = self._cluster.delete(demand_in(chunk).kind, chunk.name)
            if isinstance(answer, NoAnswer):
                return silent(answer)
        return None

    def avoid(self, chunk: ChunkRecord, hosts: Collection[str]) -> None:  # noqa: ARG002 - a Job's pods are as they were submitted
        """Do nothing: the pods of a started Job cannot be changed."""
        return

    def throttle(self, chunk: ChunkRecord, most_at_once: int) -> Silent | None:
        """Limit how many pods of a Job run at once; see `Engine`."""
        patch = {"spec": {"parallelism": max(1, min(most_at_once, chunk.num_units))}}
        answer = self._cluster.patch("Job", chunk.name, patch)
        return silent(answer) if isinstance(answer, NoAnswer) else None

    def _look_at_jobs(self) -> Mapping[str, SeenJob] | NoAnswer:
        """Return the Jobs by the names of the submitted objects."""
        jobs = self._jobs.look()
        return jobs if isinstance(jobs, NoAnswer) else {job.made: job for job in jobs.values()}

    def _begin(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        self._pods.__enter__()
        self._jobs.__enter__()
        for watch in (self._pods, self._jobs):
            threading.Thread(target=self._tell, args=(watch,), daemon=True).start()

    def _tell(self, watch: Any) -> None:
        while not self._is_closed.is_set():
            if watch.wait_for_change(5.0):
                self._heard()

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
            words = job.problem or "its pod is gone, and how it ended is not known"
            ending = self._endings.setdefault(unit, Ending("lost", words))
            return Shown("over", chunk.name, ending=ending)
        last = self.final_status(chunk, unit.unit)
        words = f"begins again: {last.words}" if last else ""
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
        if isinstance(listed, (Denied, NoAnswer)):
            return isinstance(listed, NoAnswer)
        pods = map(keep_pod, listed.items)
        return any(pod.index == unit.unit and pod.name not in self._deleted for pod in pods)

    def _delete(self, pod: SeenPod) -> None:
        if pod.name in self._deleted:
            return
        answer = self._cluster.delete("Pod", pod.name)
        if not isinstance(answer, NoAnswer):
            self._deleted.add(pod.name)

    def _sweep(self, live: set[str]) -> None:
        """Delete the Jobs of chunks that are over, and forget them."""
        for name in [*self._known]:
            if name in live:
                continue
            answer = self._cluster.delete(demand_in(self._known[name]).kind, name)
            if isinstance(answer, NoAnswer):
                return
            chunk = self._known.pop(name)
            self._groups.pop(name, None)
            for index in range(chunk.num_units):
                unit = UnitName(chunk.number, index)
                self._mirrors.forget(unit)
                self._endings.pop(unit, None)
                self._disruptions.forget(unit)
                self._unwanted.discard(unit)

    def sweep(self) -> None:
        """Delete all Jobs that are left, after all attempts have ended."""
        with contextlib.suppress(OSError):
            self._sweep(set())


def _is_newer(pod: SeenPod, before: SeenPod) -> bool:
    """Return whether a pod replaces an older pod of its index; times have whole seconds."""
    if pod.created != before.created:
        return pod.created > before.created
    return before.is_over and not pod.is_over

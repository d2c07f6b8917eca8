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

from tarmac.executors.kubernetes.demand import Demand, demand_of
from tarmac.executors.kubernetes.making import JobMaker, demand_in, silent
from tarmac.executors.kubernetes.manifests import RUN
from tarmac.executors.kubernetes.mirrors import Mirrors
from tarmac.executors.kubernetes.nodes import with_gpus
from tarmac.executors.kubernetes.options import options_of
from tarmac.executors.kubernetes.pods import SeenJob, SeenPod, keep_job, keep_pod
from tarmac.executors.kubernetes.unit_states import UnitStates
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
from tarmac.tasks.model import Secret
from tarmac.tasks.plan import Task

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster

MAX_UNITS = 1000

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
        self._states = UnitStates(cluster, Mirrors(cluster, files, heard))
        labels = f"{RUN}={self._code}"
        self._pods = cluster.watch("Pod", labels, keep=keep_pod)
        self._jobs = cluster.watch("Job", labels, keep=keep_job)
        self._cluster_id: ClusterId | None = None
        self._has_begun = False
        self._is_closed = threading.Event()
        self._known: dict[str, ChunkRecord] = {}

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
            shown |= self._states.show(chunk, jobs.get(chunk.name), newest)
        return shown

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
            known = self._states.ending(chunk, unit, jobs.get(chunk.name))
            if known is not None:
                endings[unit] = known
        return endings

    def final_status(self, chunk: ChunkRecord, unit: int) -> Ending | None:
        """Return the last disruption of a unit's pods; see `Engine`."""
        return self._states.last_disruption(UnitName(chunk.number, unit))

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
        self._states.end(UnitName(chunk.number, number) for chunk, number in units)
        for chunk in chunks:
            self._states.end(UnitName(chunk.number, i) for i in range(chunk.num_units))
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

    def _sweep(self, live: set[str]) -> None:
        """Delete the Jobs of chunks that are over, and forget them."""
        for name in [*self._known]:
            if name in live:
                continue
            answer = self._cluster.delete(demand_in(self._known[name]).kind, name)
            if isinstance(answer, NoAnswer):
                return
            self._states.forget(self._known.pop(name))

    def sweep(self) -> None:
        """Delete all Jobs that are left, after all attempts have ended."""
        with contextlib.suppress(OSError):
            self._sweep(set())


def _is_newer(pod: SeenPod, before: SeenPod) -> bool:
    """Return whether a pod replaces an older pod of its index; times have whole seconds."""
    if pod.created != before.created:
        return pod.created > before.created
    return before.is_over and not pod.is_over

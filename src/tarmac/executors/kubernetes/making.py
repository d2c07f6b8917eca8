"""Makes the Jobs of chunks and the objects that their pods read; each step is repeatable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tarmac.errors import TarmacError
from tarmac.executors.kubernetes.demand import Demand
from tarmac.executors.kubernetes.manifests import (
    NONCE,
    RUN_DIRECTORY,
    Unit,
    config_manifest,
    job_manifest,
    secret_manifest,
    service_manifest,
)
from tarmac.executors.kubernetes.pods import keep_job
from tarmac.executors.queueing import (
    Accepted,
    ChunkFiles,
    ChunkRecord,
    Full,
    Refused,
    Silent,
    TooLarge,
)
from tarmac.kubernetes import NoAnswer, explain_refusal
from tarmac.kubernetes import Refused as Denied
from tarmac.node import Chunk, packed_elements, plain_units, small_agent

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster

# Most bytes of all files of a ConfigMap (the API's MaxSecretSize, which holds for both).
_MAX_BYTES = 2**20


class ChunkManifests:
    """Builds the manifests of one run's Jobs, without any request.

    Args:
        run: Code of the run in the labels of its objects.
        agent: The agent's file, for pods that see the run's directory.
        files: Chunk files of the run.
    """

    def __init__(self, *, run: str, agent: Path, files: ChunkFiles) -> None:
        self._code = run
        self._agent = agent
        self._files = files

    def manifest(
        self,
        chunk: ChunkRecord,
        *,
        most_at_once: int | None = None,
        excluded: Collection[str] = (),
    ) -> dict[str, Any]:
        """Return the manifest of a chunk's Job or JobSet."""
        demand = demand_in(chunk)
        unit = Unit(
            name=chunk.name,
            run=self._code,
            nonce=chunk.nonce,
            size=chunk.num_units,
            command=self._command(chunk, demand),
            nodes=demand.nodes,
            is_set=demand.jobset,
            label=self._files.job_label,
        )
        return job_manifest(
            unit, demand, most_at_once=most_at_once, excluded=tuple(sorted(excluded))
        )

    def _command(self, chunk: ChunkRecord, demand: Demand) -> list[str]:
        if demand.claim:
            spec = self._files.spec(chunk)
            script = 'exec sh "$0" "$1" "$JOB_COMPLETION_INDEX"'
            if demand.nodes > 1:
                # The first pod runs the attempt; the others run their parts of it.
                script = (
                    '[ "$JOB_COMPLETION_INDEX" = 0 ] || set -- --part "$1"; exec sh "$0" "$@" 0'
                )
            return ["sh", "-c", script, str(self._agent), str(spec)]
        unit = '"$JOB_COMPLETION_INDEX"' if demand.nodes == 1 else "0"
        script = (
            "for p in python3 python; do "
            "command -v $p >/dev/null 2>&1 && exec $p -I /tarmac/chunk/agent.pyz --framed "
            f"/tarmac/chunk/spec.gz {unit} {RUN_DIRECTORY}; done; "
        )
        # In an image without Python, sh does the agent's work, but only for a single pod.
        if demand.nodes == 1:
            script += (
                'command -v gzip >/dev/null 2>&1 && eval "$(gzip -dc /tarmac/chunk/plain.gz)"; '
            )
        script += (
            'echo "tarmac: this image has no Python, which the agent needs: 3.9 or newer" '
            "| tee /dev/termination-log >&2; exit 127"
        )
        return ["sh", "-c", script]


class JobMaker:
    """Makes the Jobs of one run.

    Args:
        cluster: Cluster where the Jobs are made.
        run: Code of the run in the labels of its objects.
        agent: The agent's file, for pods that see the run's directory.
        files: Chunk files of the run.
        values: Returns the values of some variables of a task, by its index, from this machine.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        run: str,
        agent: Path,
        files: ChunkFiles,
        values: Callable[[int, Iterable[str]], Mapping[str, bytes]],
    ) -> None:
        self._cluster = cluster
        self._manifests = ChunkManifests(run=run, agent=agent, files=files)
        self._files = files
        self._values = values

    def make(  # noqa: PLR0911 - an answer for each step
        self, chunk: ChunkRecord, *, most_at_once: int | None, excluded: Collection[str]
    ) -> Accepted | Full | TooLarge | Refused | Silent:
        """Create a Job and the objects that its pods read, then let it start.

        A runner that was killed may have done some of the steps already.
        """
        demand = demand_in(chunk)
        files = self._files_of(chunk, demand)
        if not isinstance(files, dict):
            return files
        manifest = self._manifests.manifest(chunk, most_at_once=most_at_once, excluded=excluded)
        job = self._cluster.create(manifest)
        if isinstance(job, Denied) and job.is_conflict:
            job = self._adopt(chunk)
        if isinstance(job, NoAnswer):
            return silent(job)
        if isinstance(job, Denied):
            if "exceeded quota" in job.message:
                return Full(job.message)
            return Refused(_words(job, self._cluster))
        try:
            needed = [*self._owned(chunk, demand, job, files)]
        except (TarmacError, OSError) as error:
            self._cluster.delete(demand.kind, chunk.name)
            return Refused(str(error))
        for owned in needed:
            made = self._cluster.create(owned)
            if isinstance(made, NoAnswer):
                return silent(made)
            if isinstance(made, Denied) and not made.is_conflict:
                self._cluster.delete(demand.kind, chunk.name)
                return Refused(f"Kubernetes refuses its {owned['kind']}: {made.message}")
        if not demand.queue:
            started = self._cluster.patch(demand.kind, chunk.name, {"spec": {"suspend": False}})
            if isinstance(started, NoAnswer):
                return silent(started)
            if isinstance(started, Denied):
                return Refused(f"Kubernetes does not let it start: {started.message}")
        return Accepted(chunk.name)

    def find(self, chunk: ChunkRecord) -> Accepted | Silent | None:
        """Find a chunk's Job in the cluster.

        A Job that was never allowed to start counts as missing; the next submission adopts it.
        """
        answer = self._cluster.get(demand_in(chunk).kind, chunk.name)
        if isinstance(answer, NoAnswer):
            return silent(answer)
        if isinstance(answer, Denied):
            return Silent(f"{self._cluster.title}: {answer.message}")
        if answer is None:
            return None
        job = keep_job(answer)
        if job.nonce != chunk.nonce or (job.is_suspended and not demand_in(chunk).queue):
            return None
        return Accepted(chunk.name)

    def _owned(
        self,
        chunk: ChunkRecord,
        demand: Demand,
        job: Mapping[str, Any],
        files: Mapping[str, bytes],
    ) -> Iterable[dict[str, Any]]:
        if demand.nodes > 1 and not demand.jobset:
            yield service_manifest(job)
        if demand.secrets_from_here:
            task = Chunk(self._files.spec(chunk)).element(0).task
            yield secret_manifest(job, self._values(task, demand.secrets_from_here))
        if files:
            yield config_manifest(job, files)

    def _files_of(
        self, chunk: ChunkRecord, demand: Demand
    ) -> dict[str, bytes] | TooLarge | Refused:
        """Return the files, by name, for pods that do not see the run's directory."""
        if demand.claim:
            return {}
        spec = Chunk(self._files.spec(chunk))
        try:
            elements = [
                element._replace(directory=f"{RUN_DIRECTORY}/{element.task}-{element.number}")
                for element in map(spec.element, range(chunk.num_units))
            ]
        except (TarmacError, OSError) as error:
            return Refused(str(error))
        files = {"agent.pyz": small_agent(), "spec.gz": packed_elements(elements)}
        if demand.nodes == 1:
            files["plain.gz"] = plain_units(elements)
        size = sum(map(len, files.values()))
        return _too_large(chunk, size) if size > _MAX_BYTES else files

    def _adopt(self, chunk: ChunkRecord) -> Any:
        kind = demand_in(chunk).kind
        answer = self._cluster.get(kind, chunk.name)
        if answer is None:
            return Denied(409, "AlreadyExists", f"{chunk.name} existed, and is gone")
        if isinstance(answer, (Denied, NoAnswer)):
            return answer
        if (answer["metadata"].get("annotations") or {}).get(NONCE) != chunk.nonce:
            return Denied(409, "AlreadyExists", f"a {kind} {chunk.name} of another owner exists")
        return answer


def _too_large(chunk: ChunkRecord, size: int) -> TooLarge | Refused:
    words = f"is {size / 2**20:.1f} MiB, and a ConfigMap takes 1 MiB"
    if chunk.num_units > 1:
        return TooLarge(f"the specification of its pods {words}: fewer tasks go together")
    return Refused(
        "its command and environment variables are too large for Kubernetes: the specification "
        f"of its pod {words}; put large values into a file, and mount it by "
        "options.kubernetes.volume"
    )


def _words(denied: Denied, cluster: Cluster) -> str:
    explained = explain_refusal(denied, cluster.namespace)
    return f"Kubernetes refuses it: {explained.words}\n{explained.hint}".rstrip()


def demand_in(chunk: ChunkRecord) -> Demand:
    """Return the demand of a chunk's pods."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in chunk.shape.items()
    }
    return Demand(**values)


def silent(silence: NoAnswer) -> Silent:
    """Return a cluster's `NoAnswer` as an engine's `Silent`."""
    return Silent(silence.words)

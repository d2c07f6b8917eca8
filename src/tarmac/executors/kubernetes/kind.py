"""The entry for Kubernetes in the table of executors."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tarmac.errors import RequestError
from tarmac.executors.attempt import Attempt
from tarmac.executors.elements import prepare_element
from tarmac.executors.interface import Executor, ExecutorKind, Site
from tarmac.executors.kubernetes.demand import demand_of, program_of
from tarmac.executors.kubernetes.engine import MAX_UNITS, KubernetesEngine
from tarmac.executors.kubernetes.making import ChunkManifests
from tarmac.executors.kubernetes.manifests import (
    RUN_DIRECTORY,
    Unit,
    job_manifest,
    service_manifest,
)
from tarmac.executors.kubernetes.nodes import (
    UNKNOWN_GPU,
    KnownNode,
    known_nodes,
    why_never,
    with_gpus,
)
from tarmac.executors.kubernetes.options import KubernetesOptions, options_of
from tarmac.executors.kubernetes.place import connect_to
from tarmac.executors.kubernetes.runners import KubernetesRunners
from tarmac.executors.kubernetes.stores import apart_of, refuse_apart
from tarmac.executors.queueing import ChunkFiles, Patience, QueueingExecutor, run_code
from tarmac.executors.spool import Spool, sweep_spools
from tarmac.files import storage_errors
from tarmac.kubernetes import (
    JOBSET_RIGHTS,
    RIGHTS,
    NoAnswer,
    NoKubeconfigError,
    Refused,
    Right,
    explain_refusal,
    role_for,
    why_out_of_bounds,
)
from tarmac.node import AttemptSpec, agent_file, place_agent
from tarmac.tasks.model import SystemEnvironment
from tarmac.tasks.plan import Task
from tarmac.tasks.secrets import place_of_secret

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster, Object

_READS_SECRETS = Right("get", "secrets")
_MAKES_SERVICES = Right("create", "services")
# Optional rights, which only improve messages.
_SEES_REASONS = (
    *(Right("list", kind) for kind in ("events", "limitranges", "resourcequotas")),
    Right("list", "workloads", "kueue.x-k8s.io"),
)

# Note in a preview without a known cluster.
_UNASKED = f"""\
# No cluster has checked this, because no kubeconfig was found. GPUs are named
# {UNKNOWN_GPU} unless options.kubernetes.gpu_resource is set.
"""

# Without a volume, records come through the API before the end of their pods is reported.
_MIRRORED = Patience(record_s=1.0, success_s=5.0)


class KubernetesExecutor(QueueingExecutor):
    """Runs the attempts of a run in a Kubernetes cluster.

    Args:
        site: Directory, tasks and settings of the run.
        patience: Seconds to wait for records and for the cluster. Default: those of `Patience`, and
            less without a volume.

    Raises:
        RequestError: There is no cluster, or tasks name several.
    """

    def __init__(self, site: Site, *, patience: Patience | None = None) -> None:
        cluster = _connect(site.tasks)
        self._site = site
        sweep_spools()
        spool = Spool(site.run)
        with storage_errors(site.run):
            site.run.mkdir(parents=True, exist_ok=True)
            agent = place_agent(site.run)

        def prepare(attempt: Attempt, nonce: str) -> AttemptSpec:
            return _prepare(attempt, nonce, site, spool)

        self._engine = KubernetesEngine(
            cluster,
            run=site.run,
            agent=agent,
            files=ChunkFiles(site.run),
            mapping=site.secrets,
            values=self._secret_values,
            heard=self.look_now,
        )
        if any(_is_alone(task) for task in _origins(site.tasks)):
            self._engine.most_units = 1
        has_volume = any(options_of(task).volume for task in _origins(site.tasks))
        patience = patience or (Patience() if has_volume else _MIRRORED)
        super().__init__(self._engine, site, prepare, spool=spool, patience=patience)

    def _secret_values(self, index: int, names: Iterable[str]) -> Mapping[str, bytes]:
        """Return the values of a task's variables from this machine.

        Raises:
            RequestError: The variable of a secret is not set.
            OSError: The file of a secret cannot be read.
        """
        task = next(task for task in self._site.tasks if task.index == index)
        values: dict[str, bytes] = {}
        for name in names:
            secret = task.secrets[name]
            place = place_of_secret(name, secret, self._site.secrets, self._site.base)
            if isinstance(place, Path):
                values[name] = place.read_bytes().rstrip(b"\n")
                continue
            # The session that prepared the task may have had the variable, unlike this session.
            value = self._spool.read(place)
            if value is None:
                raise RequestError(f"secret for {name}: the variable {place} is not set")
            values[name] = value
        return values

    def close(self) -> None:
        """Release all resources; see `Executor`."""
        super().close()
        self._engine.close()

    def _clear(self) -> None:
        self._engine.sweep()
        super()._clear()


def _prepare(attempt: Attempt, nonce: str, site: Site, spool: Spool) -> AttemptSpec:
    """Return the element for an agent in a pod, where the pod is the task's container."""
    task = attempt.task
    theirs = demand_of(task, site.secrets).secrets
    plain = dataclasses.replace(
        task,
        command=program_of(task),
        environment=SystemEnvironment(),
        secrets={name: secret for name, secret in task.secrets.items() if name not in theirs},
    )
    changed = dataclasses.replace(attempt, task=plain)
    has_volume = options_of(task).volume is not None
    element = prepare_element(
        changed,
        nonce,
        site,
        spool,
        # Each of several pods has its own disk, and stages the inputs in there.
        options={"work": "shared" if has_volume or task.resources.nodes == 1 else RUN_DIRECTORY},
        apart=apart_of(attempt, f"{site.run.name}-{run_code(site.run)}"),
    )
    # The pod gets its secrets as variables, from a Secret.
    return element._replace(secrets={})


def _is_alone(task: Task) -> bool:
    """Return whether each attempt of a task has its own Job.

    Kueue admits only whole Jobs, and the pods of one attempt must end together.
    """
    return bool(options_of(task).queue) or task.resources.nodes > 1


def _origins(tasks: Sequence[Task]) -> list[Task]:
    """Return one task of each spec, as the others differ only in their parameters."""
    return [*{(task.spec, task.is_last): task for task in tasks}.values()]


def _connect(tasks: Sequence[Task]) -> Cluster:
    places = {
        (options.kubeconfig, options.context, options.namespace)
        for options in map(options_of, _origins(tasks))
    }
    if len(places) > 1:
        raise RequestError(
            "the tasks name several kubeconfigs, contexts or namespaces, but a run can use only one"
        )
    kubeconfig, context, namespace = places.pop() if places else ("", "", "")
    return connect_to(kubeconfig, context, namespace)


def _refuse(tasks: Sequence[Task], fake_gpus: int) -> None:  # noqa: ARG001 - Kubernetes gives GPUs
    theirs = [demand_of(task).secrets for task in _origins(tasks)]
    with _connect(tasks) as cluster:
        groups = {options_of(it).jobset for it in _origins(tasks) if it.resources.nodes > 1}
        spared = {
            _READS_SECRETS: not any(theirs),
            _MAKES_SERVICES: False not in groups,
            **dict.fromkeys(JOBSET_RIGHTS, True not in groups),
        }
        rights = [right for right in RIGHTS if not spared.get(right)]
        missing = cluster.may(*(right for right in rights if right not in _SEES_REASONS))
        if isinstance(missing, NoAnswer):
            raise RequestError(missing.words)
        if missing:
            raise RequestError(
                f"{cluster.title}: you may not {_words(missing)} in the namespace "
                f"{cluster.namespace}",
                hint="Ask an administrator to apply this and to bind it to you:\n"
                f"{role_for(rights, cluster.namespace)}",
            )
        nodes = known_nodes(cluster)
        bounds = [_items(cluster, kind) for kind in ("ResourceQuota", "LimitRange")]
        for task in _origins(tasks):
            _refuse_shape(cluster, task, nodes, bounds)


def _items(cluster: Cluster, kind: str) -> Sequence[Object]:
    """Return all objects of a kind; none where the user may not list them."""
    listed = cluster.list(kind)
    return () if isinstance(listed, (Refused, NoAnswer)) else listed.items


def _refuse_shape(
    cluster: Cluster,
    task: Task,
    nodes: Sequence[KnownNode],
    bounds: Sequence[Sequence[Object]],
) -> None:
    try:
        demand = with_gpus(demand_of(task), cluster)
    except RequestError as error:
        raise RequestError(f"task {task.name!r}: {error.message}", hint=error.hint) from error
    never = "" if options_of(task).autoscaling else why_never(demand, nodes)
    if never:
        raise RequestError(
            f"task {task.name!r}: no node of {cluster.title} can run it: {never}",
            hint="If the cluster scales automatically: --set options.kubernetes.autoscaling=true",
        )
    for name, key in demand.secrets.values():
        secret = cluster.get("Secret", name)
        if secret is None or (isinstance(secret, dict) and key not in (secret.get("data") or {})):
            what = f"no Secret {name}" if secret is None else f"no key {key} in the Secret {name}"
            raise RequestError(
                f"task {task.name!r}: there is {what} in the namespace {cluster.namespace}",
                hint=f"kubectl create secret generic {name} --from-file={key}=FILE",
            )
    unit = Unit("tarmac-test", "test", "test", 1, ("true",), demand.nodes, demand.jobset)
    manifest = job_manifest(unit, demand)
    pod = job_manifest(dataclasses.replace(unit, is_set=False), demand)["spec"]["template"]["spec"]
    if never := why_out_of_bounds(pod, demand.nodes, *bounds):
        raise RequestError(
            f"task {task.name!r}: the namespace {cluster.namespace} never lets it start: {never}",
            hint="Request what it allows: kubectl describe quota,limitrange",
        )
    answer = cluster.create(manifest, dry_run=True)
    if demand.jobset and isinstance(answer, Refused) and answer.status == 404:
        raise RequestError(
            f"task {task.name!r}: {cluster.title} has no JobSet",
            hint="Ask an administrator to install it (https://jobset.sigs.k8s.io), or leave out "
            "options.kubernetes.jobset: an Indexed Job does the same.",
        )
    if isinstance(answer, Refused) and "exceeded quota" not in answer.message:
        explained = explain_refusal(answer, cluster.namespace)
        raise RequestError(
            f"task {task.name!r}: Kubernetes refuses it: {explained.words}", hint=explained.hint
        )


def _preview(site: Site) -> Iterator[str]:
    note = ""
    cluster: Cluster | None = None
    try:
        cluster = _connect(site.tasks)
    except NoKubeconfigError:
        note = _UNASKED
    with cluster or nullcontext():
        files = ChunkFiles(site.run)
        manifests = ChunkManifests(run=run_code(site.run), agent=agent_file(site.run), files=files)
        shapes: dict[str, list[Task]] = {}
        for task in site.tasks:
            demand = with_gpus(demand_of(task, site.secrets), cluster)
            shapes.setdefault(json.dumps(dataclasses.asdict(demand)), []).append(task)
        for key, tasks in shapes.items():
            size = 1 if _is_alone(tasks[0]) else MAX_UNITS
            for first in range(0, len(tasks), size):
                attempts = [(task.index, 1) for task in tasks[first : first + size]]
                record = files.make(json.loads(key), attempts, 1)
                manifest = manifests.manifest(record, most_at_once=site.concurrency)
                yield f"---\n{note}{yaml.safe_dump(manifest, sort_keys=False)}"
                if tasks[0].resources.nodes > 1 and manifest["kind"] == "Job":
                    # Only an existing Job has a uid.
                    manifest["metadata"]["uid"] = "UID-OF-THE-JOB"
                    yield f"---\n{yaml.safe_dump(service_manifest(manifest), sort_keys=False)}"


def _words(rights: Sequence[Right]) -> str:
    return ", ".join(f"{right.verb} {right.resource}" for right in rights)


def _open(site: Site) -> Executor:
    return KubernetesExecutor(site)


KUBERNETES = ExecutorKind(
    "kubernetes",
    "a Kubernetes cluster",
    refuse=_refuse,
    open=_open,
    outlives=True,
    has_secrets=True,
    options=KubernetesOptions,
    preview=_preview,
    runners=KubernetesRunners(),
    refuse_apart=refuse_apart,
    runs_containers=True,
)

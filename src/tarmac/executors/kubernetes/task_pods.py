"""The manifests of tasks' pods: their command, resources, volumes and variables."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

from tarmac.executors.kubernetes.demand import Demand
from tarmac.executors.kubernetes.overlay import CHECK, CHUNK, CONTAINER, RUN_DIRECTORY
from tarmac.kubernetes import container_context, home_variables, pod_context
from tarmac.processes import python_command

Manifest = dict[str, Any]

# Memory of the agent beside its program, as under Slurm.
_AGENT_BYTES = 64 * 2**20

# The program's grace period, and time for its agent after that.
GRACE_S = 30

# The last line becomes the reason in messages. A missing Python or Tarmac is no fault of the node.
_CHECK = """\
said=$("$@" 2>&1)
code=$?
printf '%s\\n' "$said" >&2
printf '%s\\n' "$said" | tail -n 1 > /dev/termination-log
exit $code
"""

# Label that the Job controller sets on pods.
OF_JOB = "batch.kubernetes.io/job-name"

# Name of the only Job in a JobSet, which becomes NAME-nodes-0.
REPLICATED_JOB = "nodes"

# Ports for the rendezvous, where the agent on the first node listens: below the ports that systems
# assign at random (ip_local_port_range) and above well-known ports. With host networking, which
# pods rarely have, each Job has its own port.
_FIRST_PORT, _NUM_PORTS = 20_000, 10_000


@dataclasses.dataclass(frozen=True)
class Unit:
    """The Job that pods belong to, with their command.

    Attributes:
        name: Name of the Job, or of the JobSet that makes it; unique in the namespace.
        run: Code of the run in the labels of its objects.
        nonce: Nonce of the chunk that the Job runs.
        size: Number of attempts in the Job.
        command: Command of each pod's container.
        nodes: Pods that run one attempt together; `size` is then 1. Default 1.
        is_set: Whether a JobSet makes the Job.
        label: Name of the job file's job, for people who look for its pods. Default ``tarmac``.
    """

    name: str
    run: str
    nonce: str
    size: int
    command: Sequence[str]
    nodes: int = 1
    is_set: bool = False
    label: str = "tarmac"

    @property
    def job(self) -> str:
        """The Job's name."""
        return f"{self.name}-{REPLICATED_JOB}-0" if self.is_set else self.name


def pod_spec(unit: Unit, demand: Demand, excluded: Sequence[str]) -> Manifest:
    """Return the specification of a task's pods.

    Args:
        unit: Job that the pods belong to, with their command.
        demand: CPUs, memory, GPUs and settings of each pod.
        excluded: Names of nodes that the pods must avoid.
    """
    spec: Manifest = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "containers": [_container(unit, demand)],
        "volumes": _volumes(unit, demand),
    }
    if demand.service_account:
        spec["serviceAccountName"] = demand.service_account
        spec["automountServiceAccountToken"] = True
    if demand.check_image and demand.gpu_resource.startswith("nvidia.com/"):
        spec["initContainers"] = [_check(demand)]
    if security := pod_context(demand.user, restricted=demand.restricted):
        spec["securityContext"] = security
    if demand.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in demand.pull_secrets]
    if demand.node_selector:
        spec["nodeSelector"] = {**demand.node_selector}
    if demand.tolerations:
        spec["tolerations"] = [{**toleration} for toleration in demand.tolerations]
    if demand.priority_class:
        spec["priorityClassName"] = demand.priority_class
    affinity: Manifest = {}
    if unit.nodes > 1:
        spec["subdomain"] = unit.name
        term = {
            "labelSelector": {"matchLabels": {OF_JOB: unit.job}},
            "topologyKey": "kubernetes.io/hostname",
        }
        affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if terms := _node_terms(demand, excluded):
        required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    if affinity:
        spec["affinity"] = affinity
    return spec


def _node_terms(demand: Demand, excluded: Sequence[str]) -> list[list[Manifest]]:
    """Return terms for a node's labels, of which one must hold; empty where any node will do."""
    others: list[Manifest] = []
    if excluded:
        hosts = sorted(excluded)
        others = [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": hosts}]
    kinds: list[list[Manifest]] = [
        [{"key": label, "operator": "In", "values": [*names]}]
        for label, names in sorted(demand.gpu_labels.items())
    ]
    return [[*kind, *others] for kind in kinds or [[]] if kind or others]


def _container(unit: Unit, demand: Demand) -> Manifest:
    requests: dict[str, str] = {"cpu": f"{max(1, round(demand.cpus * 1000))}m"}
    limits: dict[str, str] = {}
    if demand.memory is not None:
        # Shared memory counts towards the memory limit of the container that writes to it.
        limits["memory"] = str(demand.memory + (demand.shm or 0) + _AGENT_BYTES)
    if demand.gpus:
        limits[demand.gpu_resource] = str(demand.gpus)
    return {
        "name": CONTAINER,
        "image": demand.image,
        "imagePullPolicy": demand.pull,
        "command": [*unit.command],
        "env": _variables(unit, demand),
        "resources": {"requests": requests | limits, **({"limits": limits} if limits else {})},
        "securityContext": container_context(restricted=demand.restricted),
        "volumeMounts": _mounts(demand),
    }


def _check(demand: Demand) -> Manifest:
    """Return the init container that checks a pod's GPUs before its program begins."""
    limits = {demand.gpu_resource: str(demand.gpus)}
    gpus = str(demand.gpus)
    check = python_command("tarmac.checks.pod_gpus", gpus, python=demand.check_python)
    return {
        "name": CHECK,
        "image": demand.check_image,
        "imagePullPolicy": demand.pull,
        "command": ["sh", "-c", _CHECK, "sh", *check],
        "env": [
            *(home_variables() if demand.is_unnamed else ()),
            {
                "name": "TARMAC_KUBERNETES_NODE",
                "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
            },
        ],
        "resources": {"requests": limits, "limits": limits},
        "securityContext": container_context(restricted=demand.restricted),
    }


def _variables(unit: Unit, demand: Demand) -> list[Manifest]:
    def field(path: str) -> Manifest:
        return {"valueFrom": {"fieldRef": {"fieldPath": path}}}

    def key(name: str, key: str) -> Manifest:
        return {"valueFrom": {"secretKeyRef": {"name": name, "key": key}}}

    return [
        *(home_variables() if demand.is_unnamed else ()),
        {"name": "TARMAC_KUBERNETES_JOB", "value": unit.job},
        *([{"name": "TARMAC_KUBERNETES_SERVICE", "value": unit.name}] if unit.nodes > 1 else ()),
        {"name": "TARMAC_KUBERNETES_NODE", **field("spec.nodeName")},
        *([{"name": "TARMAC_RENDEZVOUS", "value": _meeting(unit)}] if unit.nodes > 1 else ()),
        *({"name": name, **key(unit.name, name)} for name in demand.secrets_from_here),
        *({"name": name, **key(*place)} for name, place in sorted(demand.secrets.items())),
    ]


def _meeting(unit: Unit) -> str:
    """Return the rendezvous of several nodes' agents, as `tarmac.node.rendezvous` reads it."""
    digest = hashlib.sha256(f"{unit.name} {unit.nonce}".encode()).digest()
    port = _FIRST_PORT + int.from_bytes(digest[:4], "big") % _NUM_PORTS
    return f"{port} {unit.nonce} {unit.job}-0.{unit.name}"


def _volumes(unit: Unit, demand: Demand) -> list[Manifest]:
    volumes: list[Manifest] = []
    if demand.claim:
        claim = {"claimName": demand.claim}
        volumes.append({"name": "run", "persistentVolumeClaim": claim})
    else:
        volumes += [
            {"name": "chunk", "configMap": {"name": unit.name}},
            {"name": "run", "emptyDir": {}},
        ]
    if demand.shm is not None:
        memory = {"medium": "Memory", "sizeLimit": str(demand.shm)}
        volumes.append({"name": "shm", "emptyDir": memory})
    return volumes


def _mounts(demand: Demand) -> list[Manifest]:
    mounts: list[Manifest] = [{"name": "run", "mountPath": demand.path or RUN_DIRECTORY}]
    if not demand.claim:
        mounts.append({"name": "chunk", "mountPath": CHUNK, "readOnly": True})
    if demand.shm is not None:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108 - the pod's own
    return mounts

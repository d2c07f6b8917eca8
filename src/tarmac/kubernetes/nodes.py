"""The nodes of a cluster as the API reports them, and whether pods may run there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.kubernetes.answers import Object, in_form
from tarmac.kubernetes.quantities import is_gpu, quantity

_TYPE = "node.kubernetes.io/instance-type"
# Labels of NVIDIA's GPU feature discovery: https://github.com/NVIDIA/k8s-device-plugin.
_PRODUCT = "nvidia.com/gpu.product"
_REPLICAS = "nvidia.com/gpu.replicas"
# Kubernetes' own taints state a node's condition; other taints reserve a node.
_OF_STATE = "node.kubernetes.io/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterNode:
    """A node as the cluster reports it.

    Attributes:
        name: Name of the node in the cluster.
        cpus: CPU cores that the node can allocate to pods.
        memory_bytes: Memory in bytes that the node can allocate to pods.
        gpus: GPUs that the node can allocate to pods, by resource: ``{"nvidia.com/gpu": 8}``.
        kind: Properties that are equal for nodes of the same kind.
        trouble: Why no pod can start on the node now. Empty: pods can start.
        apart: Why pods with these options may not use the node. Empty: they may.
        is_shared: Whether GPUs are time-sliced: each GPU is counted several times.
    """

    name: str
    cpus: float
    memory_bytes: int
    gpus: Mapping[str, int]
    kind: tuple[object, ...]
    trouble: str = ""
    apart: str = ""
    is_shared: bool = False


@in_form
def read_node(
    node: Object,
    *,
    selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, str]] = (),
    gpu_resource: str = "",
) -> ClusterNode:
    """Return a node as the cluster reports it.

    Args:
        node: Node object from the API.
        selector: Labels that the pods' node selector requires.
        tolerations: Tolerations of the pods, as in a pod's spec.
        gpu_resource: Resource name of the GPUs that count. Empty: all GPUs.
    """
    about, spec = node["metadata"], node.get("spec") or {}
    status: Mapping[str, Any] = node.get("status") or {}
    labels: Mapping[str, str] = about.get("labels") or {}
    amounts = {name: quantity(amount) for name, amount in (status.get("allocatable") or {}).items()}
    capacity = status.get("capacity") or {}
    gpus = {
        name: int(amount)
        for name, amount in sorted(amounts.items())
        if amount and (name == gpu_resource if gpu_resource else is_gpu(name))
    }
    # Nodes of the same kind differ by a few bytes that the system reserves.
    memory_gib = round(quantity(capacity.get("memory", 0)) / 2**30)
    names = labels.get(_TYPE, ""), labels.get(_PRODUCT, "")
    return ClusterNode(
        name=str(about["name"]),
        cpus=amounts.get("cpu", 0.0),
        memory_bytes=int(amounts.get("memory", 0)),
        gpus=gpus,
        kind=(quantity(capacity.get("cpu", 0)), memory_gib, tuple(gpus.items()), *names),
        trouble=_trouble(spec, status),
        apart=_apart(spec, labels, selector or {}, tolerations, gpus),
        is_shared=labels.get(_REPLICAS, "1") not in ("0", "1"),
    )


def _trouble(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            text = " ".join(str(condition.get("message") or condition.get("reason") or "").split())
            return f"is not ready: {text}" if text else "is not ready"
    if spec.get("unschedulable"):
        return "is cordoned: kubectl uncordon lets pods start there again"
    for taint in spec.get("taints") or ():
        key = str(taint.get("key"))
        if key.startswith(_OF_STATE) and taint.get("effect") != "PreferNoSchedule":
            return f"takes no pods: {key.removeprefix(_OF_STATE)}"
    return ""


def _apart(
    spec: Mapping[str, Any],
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    tolerations: Sequence[Mapping[str, str]],
    gpus: Mapping[str, int],
) -> str:
    for name, value in selector.items():
        if labels.get(name) != value:
            return f"has no label {name}={value}, which node_selector asks for"
    for taint in spec.get("taints") or ():
        key = str(taint.get("key"))
        # Clusters add a toleration for the taint of each resource that a pod requests
        # (ExtendedResourceToleration).
        is_other = key.startswith(_OF_STATE) or key in gpus
        if (
            not is_other
            and taint.get("effect") != "PreferNoSchedule"
            and not any(_bears(toleration, taint) for toleration in tolerations)
        ):
            value = f"={taint['value']}" if taint.get("value") else ""
            return (
                f"has the taint {key}{value}:{taint.get('effect')}, which its tolerations do not "
                "match"
            )
    return ""


def _bears(toleration: Mapping[str, str], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    is_any = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return is_any
    return is_any or toleration.get("value", "") == (taint.get("value") or "")

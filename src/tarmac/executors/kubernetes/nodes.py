"""The resources and labels of nodes, where the user may list nodes, and checks against them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tarmac.errors import RequestError
from tarmac.executors.kubernetes.demand import Demand
from tarmac.kubernetes import NoAnswer, Refused, in_form, is_gpu, quantity
from tarmac.machine import fitting_names

if TYPE_CHECKING:
    from tarmac.kubernetes import Cluster, Object

# Used where neither the options nor the nodes name the GPU resource.
UNKNOWN_GPU = "nvidia.com/gpu"


# Labels with a node's GPU product: NVIDIA's GPU feature discovery, AMD's node labeller, GKE,
# Karpenter on AWS, CoreWeave.
_PRODUCTS = (
    "nvidia.com/gpu.product",
    *("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name"),
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "gpu.nvidia.com/class",
)


class KnownNode(NamedTuple):
    """The resources and labels of a node.

    Attributes:
        amounts: Allocatable amount of each resource, by name.
        labels: Labels of the node.
    """

    amounts: Mapping[str, float]
    labels: Mapping[str, str]


def known_nodes(cluster: Cluster) -> Sequence[KnownNode]:
    """Return the nodes of a cluster; none where the user may not list nodes."""
    listed = cluster.list("Node")
    if isinstance(listed, (Refused, NoAnswer)):
        return ()
    return [_known(node) for node in listed.items]


@in_form
def _known(node: Object) -> KnownNode:
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    amounts = {name: quantity(amount) for name, amount in allocatable.items()}
    return KnownNode(amounts, node["metadata"].get("labels") or {})


def with_gpus(demand: Demand, cluster: Cluster | None) -> Demand:
    """Return a demand with the cluster's resource name and node labels for its GPUs.

    Args:
        demand: Demand of a task's pods.
        cluster: Cluster whose nodes are read; None for a preview, which asks no cluster.

    Raises:
        RequestError: Nodes report several GPU resources, or no node has GPUs of the kind.
    """
    if not demand.gpus:
        return demand
    kind = demand.gpu_type.lower()
    if "/" in kind or kind.startswith("mig-"):
        name = demand.gpu_type if "/" in kind else f"nvidia.com/{kind}"
        return dataclasses.replace(demand, gpu_resource=name, gpu_type="")
    if cluster is None:
        return dataclasses.replace(demand, gpu_resource=demand.gpu_resource or UNKNOWN_GPU)
    if kind and not demand.gpu_labels:
        labels = _labels_of(cluster, demand.gpu_type)
        demand = dataclasses.replace(demand, gpu_labels=labels)
    if not demand.gpu_resource:
        demand = dataclasses.replace(demand, gpu_resource=gpu_resource(cluster))
    return demand


def _labels_of(cluster: Cluster, gpu_type: str) -> dict[str, tuple[str, ...]]:
    nodes = known_nodes(cluster)
    products = {
        label: {node.labels[label] for node in nodes if label in node.labels} for label in _PRODUCTS
    }
    names = {name for values in products.values() for name in values}
    fitting = {*fitting_names(names, gpu_type)}
    labels = {label: tuple(sorted(values & fitting)) for label, values in products.items()}
    if not fitting:
        seen = f"they have {', '.join(sorted(names))}" if names else "no label names their GPUs"
        raise RequestError(
            f"no node of {cluster.title} has GPUs of type {gpu_type!r}: {seen}",
            hint="Give only the number of GPUs, and select nodes with "
            "options.kubernetes.node_selector",
        )
    return {label: values for label, values in labels.items() if values}


def gpu_resource(cluster: Cluster) -> str:
    """Return the name of a cluster's GPU resource.

    Raises:
        RequestError: Nodes report several GPU resources.
    """
    nodes = known_nodes(cluster)
    names = {
        name for node in nodes for name, amount in node.amounts.items() if amount and is_gpu(name)
    }
    if len(names) > 1:
        raise RequestError(
            f"nodes of {cluster.title} report several kinds of GPU: {', '.join(sorted(names))}",
            hint=f"Choose one: --set options.kubernetes.gpu_resource={min(names)}",
        )
    return names.pop() if names else UNKNOWN_GPU


def why_never(demand: Demand, nodes: Sequence[KnownNode]) -> str:
    """Return why an attempt's pods can never run on nodes, in words.

    Empty where the pods can run, or no node is known.
    """
    requests = {"cpu": demand.cpus, "memory": float(demand.memory or 0)}
    if demand.gpus:
        requests[demand.gpu_resource] = float(demand.gpus)
    fitting = [
        node.amounts
        for node in nodes
        if not demand.gpu_labels
        or any(node.labels.get(label) in names for label, names in demand.gpu_labels.items())
    ]
    for name, amount in requests.items():
        most = max((amounts.get(name, 0.0) for amounts in fitting), default=amount)
        if most < amount:
            which = (
                f"the largest node with {demand.gpu_type}"
                if demand.gpu_type
                else "the largest node"
            )
            return f"it needs {amount:g} of {name}, and {which} has {most:g}"
    able = [it for it in fitting if all(it.get(name, 0.0) >= requests[name] for name in requests)]
    if nodes and demand.nodes > len(able):
        return f"it needs {demand.nodes} such nodes, and {len(able)} have enough"
    return ""

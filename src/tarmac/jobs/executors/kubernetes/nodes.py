"""What nodes have, as far as one may look: which GPUs, and whether a task can fit at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.kubernetes import Refused, Silence, is_gpu, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.jobs.executors.kubernetes.demand import Demand
    from tarmac.kubernetes import Cluster

__all__ = ["UNKNOWN_GPU", "allocatable", "gpu_resource", "why_never"]

# Where nobody says what a cluster calls its GPUs.
UNKNOWN_GPU = "nvidia.com/gpu"


def allocatable(cluster: Cluster) -> Sequence[Mapping[str, float]]:
    """Return what each node gives pods, by resource; nothing where one may not look."""
    listed = cluster.list("Node")
    if isinstance(listed, (Refused, Silence)):
        return ()
    return [
        {
            name: quantity(amount)
            for name, amount in ((node.get("status") or {}).get("allocatable") or {}).items()
        }
        for node in listed.items
    ]


def gpu_resource(cluster: Cluster) -> str:
    """Return what a cluster calls its GPUs.

    Raises:
        RequestError: Its nodes report several kinds.
    """
    nodes = allocatable(cluster)
    names = {name for node in nodes for name, amount in node.items() if amount and is_gpu(name)}
    if len(names) > 1:
        raise RequestError(
            f"nodes of {cluster.title} report several kinds of GPU: {', '.join(sorted(names))}",
            hint=f"Say which: --set options.kubernetes.gpu_resource={min(names)}",
        )
    return names.pop() if names else UNKNOWN_GPU


def why_never(demand: Demand, nodes: Sequence[Mapping[str, float]]) -> str:
    """Return why nodes can never run an attempt's pods, in words.

    Empty where they can, or no node is known.
    """
    asked = {"cpu": demand.cpus, "memory": float(demand.memory or 0)}
    if demand.gpus:
        asked[demand.gpu_resource] = float(demand.gpus)
    for name, amount in asked.items():
        most = max((node.get(name, 0.0) for node in nodes), default=amount)
        if most < amount:
            return f"it needs {amount:g} of {name}, and the largest node has {most:g}"
    able = [node for node in nodes if all(node.get(name, 0.0) >= asked[name] for name in asked)]
    if nodes and demand.nodes > len(able):
        return f"it needs {demand.nodes} such nodes, and {len(able)} have enough"
    return ""

"""The demands of tasks on Ray and the nodes that meet them, without any request."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tarmac.errors import RequestError
from tarmac.executors.ray.options import options_of
from tarmac.machine import fitting_names
from tarmac.tasks.plan import Task
from tarmac.wording import counted

# Ray counts resources in ten-thousandths (ray: src/ray/common/scheduling/fixed_point.h).
_GRAIN = 1e-4

# Ray's resource for a node's kind of GPU, and the amount that Ray requests of it (ray:
# python/ray/_private/ray_constants.py, RESOURCE_CONSTRAINT_PREFIX and resource_spec.py).
_ACCELERATOR, _SOME = "accelerator_type:", 0.001


@dataclasses.dataclass(frozen=True)
class RayNode:
    """A node of a cluster that is alive.

    Attributes:
        id: Ray's unique id of the node.
        name: Name of the node for people and in attempts' records.
        total: Amount of each resource that the node has.
        labels: Labels of the node, by name.
    """

    id: str
    name: str
    total: Mapping[str, float]
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demand:
    """The needs of each node of an attempt.

    Attributes:
        cpus: CPUs of each node; may be a fraction. Default 1.
        gpus: GPUs of each node. A fraction shares a GPU with others. Default 0.
        memory_bytes: Memory of each node, in bytes; None for no demand.
        resources: Amounts of custom resources, by name.
        labels: Labels that each node must have, by name.
        nodes: Number of Ray nodes, all different. Default 1.
        spread: Whether to distribute attempts over many nodes. Default false.
        gpu_type: Kind of its GPUs, as Ray names it: ``A100``; empty for any.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory_bytes: int | None = None
    resources: Mapping[str, float] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    nodes: int = 1
    spread: bool = False
    gpu_type: str = ""

    def amounts(self) -> dict[str, float]:
        """Return the needs of each node, by Ray's names of resources."""
        amounts = {"CPU": self.cpus, "GPU": self.gpus, "memory": float(self.memory_bytes or 0)}
        if self.gpu_type:
            # A function's accelerator_type makes the same request.
            amounts[f"{_ACCELERATOR}{self.gpu_type}"] = _SOME
        return {name: n for name, n in {**amounts, **self.resources}.items() if n > 0}

    def to_options(self) -> dict[str, Any]:
        """Return the options of a remote function for this demand."""
        options: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": 0}
        if self.memory_bytes:
            options["memory"] = self.memory_bytes
        if self.resources:
            options["resources"] = {**self.resources}
        if self.gpu_type:
            options["accelerator_type"] = self.gpu_type
        if self.labels:
            options["label_selector"] = {**self.labels}
        if self.spread:
            options["scheduling_strategy"] = "SPREAD"
        return options


def demand_of(task: Task) -> Demand:
    """Return the demand of a task.

    Raises:
        RequestError: The task's options are invalid.
    """
    options, needs = options_of(task), task.resources
    return Demand(
        cpus=needs.cpus,
        gpus=needs.gpus,
        memory_bytes=needs.memory,
        resources=options.resources,
        labels=options.labels,
        nodes=needs.nodes,
        spread=options.spread,
        gpu_type=needs.gpu_type,
    )


def with_ray_type(demand: Demand, nodes: Iterable[RayNode]) -> Demand:
    """Return a demand with the GPU kind as this cluster's nodes name it.

    Raises:
        RequestError: The nodes have several matching kinds.
    """
    if not demand.gpu_type:
        return demand
    kinds = {
        name.removeprefix(_ACCELERATOR)
        for node in nodes
        for name in node.total
        if name.startswith(_ACCELERATOR)
    }
    fitting = fitting_names(kinds, demand.gpu_type)
    if len(fitting) > 1:
        raise RequestError(
            f"GPUs of type {demand.gpu_type!r} may be {', '.join(fitting)}",
            hint=f"Name one: resources: {{gpus: {{type: {fitting[0]}, count: {demand.gpus:g}}}}}",
        )
    return dataclasses.replace(demand, gpu_type=fitting[0]) if fitting else demand


def num_slots(demand: Demand, nodes: Iterable[RayNode]) -> int:
    """Return how many attempts fit at once on nodes that nothing else uses."""
    slots = [_slots(demand, node) for node in nodes]
    if demand.nodes > 1:
        # Each attempt takes one slot on each of so many nodes.
        return sum(slots) // demand.nodes if sum(n > 0 for n in slots) >= demand.nodes else 0
    return sum(slots)


def why_never(demand: Demand, nodes: Sequence[RayNode]) -> str:
    """Return why an attempt can never fit on these nodes, in numbers; empty where it fits."""
    if num_slots(demand, nodes):
        return ""
    if not nodes:
        return "the cluster has no node that is alive"
    fit = sum(_slots(demand, node) > 0 for node in nodes)
    if fit:
        return f"it needs {demand.nodes} nodes with {_words(demand)}; {fit} have that"
    labelled = [node for node in nodes if _has_labels(demand, node)]
    if not labelled:
        wanted = ", ".join(f"{name}={value}" for name, value in demand.labels.items())
        return f"none of {counted(len(nodes), 'node')} has the labels {wanted}"
    where = f"{demand.nodes} nodes each" if demand.nodes > 1 else "a node"
    kinds = {name for node in labelled for name in node.total if name.startswith(_ACCELERATOR)}
    if demand.gpu_type and f"{_ACCELERATOR}{demand.gpu_type}" not in kinds:
        there = ", ".join(sorted(name.removeprefix(_ACCELERATOR) for name in kinds))
        return f"no node has GPUs of type {demand.gpu_type!r}; there are {there or 'none'}"
    short = [
        f"the largest has {_amount(name, max(node.total.get(name, 0.0) for node in labelled))}"
        for name, amount in demand.amounts().items()
        if all(node.total.get(name, 0.0) + _GRAIN / 2 < amount for node in labelled)
    ]
    shortage = ", ".join(short) or "no node has all of that at once"
    return f"it needs {where} with {_words(demand)}; {shortage}"


def why_waiting(
    demand: Demand, nodes: Sequence[RayNode], available: Mapping[str, float], *, autoscaling: bool
) -> str:
    """Return why an attempt has not begun yet.

    Args:
        demand: Resources and labels that the attempt needs.
        nodes: Nodes of the cluster that are alive.
        available: Free amount of each resource, summed over all nodes.
        autoscaling: Whether the cluster adds nodes for tasks that wait.
    """
    never = why_never(demand, nodes)
    if never:
        return f"{never}; the cluster may grow" if autoscaling else f"{never} now"
    free = ", ".join(
        f"{available.get(name, 0.0):g} of {total:g} {_noun(name)} free"
        for name in demand.amounts()
        if name != "memory" and (total := sum(node.total.get(name, 0.0) for node in nodes)) > 0
    )
    words = f"waits for {_words(demand)}"
    if all(available.get(name, 0.0) >= n * demand.nodes for name, n in demand.amounts().items()):
        # It may still fit on no single node. Otherwise its worker is starting.
        words = f"waits for Ray to start it; it needs {_words(demand)}"
    return words + (f" ({free})" if free else "")


def _slots(demand: Demand, node: RayNode) -> int:
    if not _has_labels(demand, node):
        return 0
    amounts = demand.amounts()
    if not amounts:
        return 1
    return min(int((node.total.get(name, 0.0) + _GRAIN / 2) / n) for name, n in amounts.items())


def _has_labels(demand: Demand, node: RayNode) -> bool:
    # Only Ray evaluates selectors such as `!in(a, b)`; a plain value means equality.
    return all(
        node.labels.get(name) == value or value.startswith(("!", "in("))
        for name, value in demand.labels.items()
    )


def _words(demand: Demand) -> str:
    amounts = demand.amounts()
    return ", ".join(_amount(name, n) for name, n in amounts.items()) or "nothing"


def _amount(name: str, amount: float) -> str:
    if name == "memory":
        return f"{amount / 2**30:.1f} GiB of memory"
    return f"{amount:g} {_noun(name, amount)}"


def _noun(name: str, amount: float = 2.0) -> str:
    return f"{name}s" if name in ("CPU", "GPU") and amount != 1 else name

"""The number of a pipeline's tasks before any has run."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.hkube.pipelines.batches import count_tasks
from tarmac.hkube.pipelines.graph import Graph, GraphNode
from tarmac.hkube.pipelines.supply import Supply
from tarmac.hkube.pipelines.templates import RawBatch


def count_all_tasks(graph: Graph, supply: Supply) -> Mapping[str, int | None]:
    """Return the number of tasks of each node without failures; None if results decide it."""
    numbers: dict[str, int | None] = {}
    for name, node in graph.nodes.items():
        leaders = [numbers[leader] for leader in node.leaders]
        lengths = [_length(node, number, graph, supply, numbers) for number in node.batches]
        known = [length for length in lengths if length is not None]
        followed = [number for number in leaders if number is not None]
        if len(known) < len(lengths) or len(followed) < len(leaders):
            numbers[name] = None
        else:
            num_each = count_tasks(known, is_cartesian=node.is_cartesian)
            numbers[name] = num_each * max(followed, default=1)
    return numbers


def _length(
    node: GraphNode,
    number: int,
    graph: Graph,
    supply: Supply,
    numbers: Mapping[str, int | None],
) -> int | None:
    """Return the length of a place's batch; None if results decide it."""
    source = node.template.sources[number]
    if isinstance(source, RawBatch) or source.node is None:
        return len(supply.value(node, number))
    if number in node.following or not graph.nodes[source.node].is_batch:
        return None
    return numbers[source.node]

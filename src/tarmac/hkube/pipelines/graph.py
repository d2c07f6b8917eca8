"""A pipeline's graph, from the references in its nodes' inputs.

Source: kube-HPC/DAG.hkube 2.2.2, lib/dag/dag.js.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from tarmac.errors import RequestError
from tarmac.formats import Pipeline
from tarmac.hkube.pipelines.templates import RawBatch, Template, read_template

_OUTPUT = "output"
_CARTESIAN = "cartesian"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A node of a pipeline's graph.

    Attributes:
        name: Name of the node, unique in the pipeline.
        algorithm: Name of the algorithm, as in results.
        is_output: Whether its result is its input, so that no task runs.
        is_result: Whether its results belong to the pipeline's results.
        is_batch: Whether its tasks have batch indices.
        is_cartesian: Whether there is a task for each combination of its batches' elements.
        template: Input of the node, with places for its references.
        batches: Numbers of the template's places that make batches.
        following: Numbers of the places that follow another node's batch task by task.
        leaders: Nodes whose batches it follows task by task.
        needs: Nodes that it waits for as a whole.
        children: Nodes that wait for it or follow it.
    """

    name: str
    algorithm: str
    is_output: bool
    is_result: bool
    is_batch: bool
    is_cartesian: bool
    template: Template
    batches: tuple[int, ...]
    following: frozenset[int]
    leaders: tuple[str, ...]
    needs: tuple[str, ...]
    children: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Graph:
    """A pipeline's nodes.

    Attributes:
        nodes: Nodes by name; a node comes after the nodes whose results it takes.
        order: Names of the nodes, in the order of HKube's results.
    """

    nodes: Mapping[str, GraphNode]
    order: tuple[str, ...]


def read_graph(pipeline: Pipeline) -> Graph:
    """Read a pipeline's nodes; `read_pipeline` has checked that they have no cycle.

    Raises:
        RequestError: Two nodes have the same name, or an input refers to a data source or a missing
            node, or is nested too deeply.
    """
    nodes = {}
    for node in pipeline.nodes:
        # Expanding a stored pipeline may cause a name conflict.
        if node.name in nodes:
            raise RequestError(f'pipeline {pipeline.name}: found duplicate node "{node.name}"')
        nodes[node.name] = node
    templates = {
        name: read_template(node.input, f"the input of node {name}") for name, node in nodes.items()
    }
    referred = {
        name: list(dict.fromkeys(_nodes_of(name, template, pipeline, nodes)))
        for name, template in templates.items()
    }
    by_edge = _by_edges(pipeline, referred)
    parents = {name: [*before, *by_edge[name]] for name, before in referred.items()}
    children: dict[str, list[str]] = {name: [] for name in nodes}
    for name, before in parents.items():
        for parent in before:
            children[parent].append(name)
    graph: dict[str, GraphNode] = {}
    for name in _in_order(parents, children):
        node, batches, following, leaders, needs = nodes[name], [], set[int](), [], [*by_edge[name]]
        for number, source in enumerate(templates[name].sources):
            if isinstance(source, RawBatch) or source.is_batch:
                batches.append(number)
            if isinstance(source, RawBatch) or source.node is None:
                continue
            # Only a batch can be followed task by task.
            if source.is_each and graph[source.node].is_batch:
                following.add(number)
                leaders.append(source.node)
            else:
                needs.append(source.node)
        is_output = node.kind == _OUTPUT
        graph[name] = GraphNode(
            name=name,
            # HKube's API server gives an output's algorithm this name.
            algorithm=f"{pipeline.name}-{_OUTPUT}" if is_output else node.algorithm_name or "",
            is_output=is_output,
            is_result=not children[name] or node.include_in_result,
            is_batch=bool(batches or leaders),
            is_cartesian=node.batch_operation == _CARTESIAN,
            template=templates[name],
            batches=tuple(batches),
            following=frozenset(following),
            leaders=tuple(dict.fromkeys(leaders)),
            needs=tuple(dict.fromkeys(needs)),
            children=tuple(children[name]),
        )
    return Graph(graph, tuple(dict.fromkeys(_as_results(referred))))


def _by_edges(pipeline: Pipeline, referred: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the nodes that each node waits for by an edge without a reference."""
    sources: dict[str, dict[str, None]] = {name: {} for name in referred}
    for edge in pipeline.edges:
        source, target = edge.source, edge.target
        are_nodes = all(isinstance(end, str) and end in referred for end in (source, target))
        if are_nodes and source not in referred[target]:
            sources[target][source] = None
    return {name: [*before] for name, before in sources.items()}


def _nodes_of(
    name: str, template: Template, pipeline: Pipeline, nodes: Collection[str]
) -> Iterator[str]:
    """Yield the nodes that an input refers to."""
    for source in template.sources:
        if isinstance(source, RawBatch) or source.is_flow_input:
            continue
        if source.root not in nodes:
            what = f"there is no node {source.root}"
            if source.node is None:
                what = "data sources exist only in an HKube cluster"
            raise RequestError(f"pipeline {pipeline.name}: node {name} takes {source.text}: {what}")
        yield source.root


def _in_order(
    parents: Mapping[str, Sequence[str]], children: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the nodes' names, each after its parents'."""
    left = {name: len(before) for name, before in parents.items()}
    order = [name for name, number in left.items() if not number]
    for name in order:  # The loop appends to it.
        for child in children[name]:
            left[child] -= 1
            if not left[child]:
                order.append(child)
    assert len(order) == len(parents)
    return order


def _as_results(referred: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the nodes' names in the order in which HKube adds them to its graph."""
    for name, before in referred.items():
        for parent in before:
            yield from (parent, name)
        yield name

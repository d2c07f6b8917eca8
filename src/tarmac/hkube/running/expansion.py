"""Expansion of nodes that name stored pipelines.

A node ``outer`` of the kind ``pipeline`` becomes the nodes of the stored pipeline that it names,
``outer-train``, ``outer-test``. Its references to other nodes only set an order: no results are
passed.
Source: kube-HPC/hkube at 261d3d06, core/api-server/lib/service/pipeline-creator.js.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.documents import show_path
from tarmac.errors import RequestError, unknown_name
from tarmac.formats import Edge, Node, Pipeline, cluster_faults, merged, read_reference, references

_PIPELINE = "pipeline"

# The kind of a node that tunes hyperparameters.
TUNER = "hyperparamsTuner"

# Bounds on nested pipelines and on all nodes: a few short files could expand to any number.
MAX_DEPTH = 100
_MAX_NODES = 10_000


def expand(pipeline: Pipeline, stored: Mapping[str, Pipeline]) -> Pipeline:
    """Replace nodes that name stored pipelines with the nodes of those pipelines.

    Args:
        pipeline: Pipeline with nodes to expand.
        stored: Stored pipelines that nodes may name, by name.

    Returns:
        A pipeline without nodes of the kind ``pipeline``. Its ``flow_input`` includes that of the
        stored pipelines.

    Raises:
        RequestError: A node names no pipeline or a missing one, stored pipelines form a cycle, or
            the pipeline needs a feature of a cluster.
    """
    expanded = _expand(pipeline, stored, (pipeline.name,))
    faults = [f"{show_path(fault.path)}: {fault.message}" for fault in cluster_faults(expanded)]
    if faults:
        raise RequestError(
            f"pipeline {pipeline.name} cannot be run here: {faults[0]}",
            hint="\n".join(faults[1:]) or None,
        )
    return expanded


def _expand(pipeline: Pipeline, stored: Mapping[str, Pipeline], chain: tuple[str, ...]) -> Pipeline:
    inner = {
        node.node_name: _expand_node(node, stored, chain)
        for node in pipeline.nodes
        if node.kind == _PIPELINE
    }
    flow_input: Any = dict(pipeline.flow_input or {})
    for part in inner.values():
        flow_input = merged(flow_input, dict(part.flow_input or {}))
    nodes: list[Node] = []
    edges = [*pipeline.edges]
    for node in pipeline.nodes:
        parents = dict.fromkeys(ref.root for _, ref in references(node.input) if ref.node)
        if node.node_name in inner:
            nodes += inner[node.node_name].nodes
            edges += inner[node.node_name].edges
            ordered = parents
        else:
            changes: dict[str, Any] = {"input": _without(node.input, inner)}
            if node.kind == TUNER:
                changes["algorithm_name"] = f"{pipeline.name}-{TUNER.lower()}"
            nodes.append(node.model_copy(update=changes))
            # The references of other nodes already set the order.
            ordered = {parent: None for parent in parents if parent in inner}
        if len(nodes) > _MAX_NODES:
            raise RequestError(
                f"pipeline {pipeline.name} has more than {_MAX_NODES} nodes with those that its "
                "nodes name"
            )
        for parent in ordered:
            edges += [
                Edge(source=source, target=target)
                for source in _ends(parent, inner)
                for target in _beginnings(node.node_name, inner)
            ]
    return pipeline.model_copy(update={"nodes": nodes, "edges": edges, "flow_input": flow_input})


def _expand_node(node: Node, stored: Mapping[str, Pipeline], chain: tuple[str, ...]) -> Pipeline:
    name = (node.spec or {}).get("name")
    if not isinstance(name, str):
        raise RequestError(f"node {node.node_name} must have spec with name")
    if name in chain:
        raise RequestError(f"pipelines include each other in a cycle: {' > '.join((*chain, name))}")
    if name not in stored:
        error = unknown_name("pipeline", name, dict.fromkeys(stored, ""))
        raise RequestError(f"node {node.node_name}: {error.message}", hint=error.hint)
    if len(chain) > MAX_DEPTH:
        raise RequestError(f"pipelines are in each other more than {MAX_DEPTH} deep")
    part = _expand(stored[name], stored, (*chain, name))
    names = {inner.node_name for inner in part.nodes}
    prefix = f"{node.node_name}-"
    nodes = [
        inner.model_copy(
            update={
                "node_name": prefix + inner.node_name,
                "input": _renamed(inner.input, names, prefix),
            }
        )
        for inner in part.nodes
    ]
    edges = [
        Edge(source=f"{prefix}{edge.source}", target=f"{prefix}{edge.target}")
        for edge in part.edges
    ]
    return part.model_copy(update={"nodes": nodes, "edges": edges})


def _renamed(value: Any, names: set[str], prefix: str) -> Any:
    if isinstance(value, str):
        reference = read_reference(value)
        if reference is None or reference.root not in names:
            return value
        sign = value[: len(value) - len(".".join((reference.root, *reference.path)))]
        return f"{sign}{prefix}{value[len(sign) :]}"
    if isinstance(value, dict):
        return {key: _renamed(part, names, prefix) for key, part in value.items()}
    if isinstance(value, list):
        return [_renamed(part, names, prefix) for part in value]
    return value


def _without(value: Any, gone: Mapping[str, Pipeline]) -> Any:
    """Return an input with null for references to replaced nodes, as in HKube."""
    if isinstance(value, str):
        reference = read_reference(value)
        return None if reference is not None and reference.root in gone else value
    if isinstance(value, dict):
        return {key: _without(part, gone) for key, part in value.items()}
    if isinstance(value, list):
        return [_without(part, gone) for part in value]
    return value


def _ends(name: str, inner: Mapping[str, Pipeline]) -> Sequence[str]:
    """Return a node's name, or the last nodes of its expansion."""
    if name not in inner:
        return (name,)
    part = inner[name]
    followed = {edge.source for edge in part.edges}
    followed |= {ref.root for node in part.nodes for _, ref in references(node.input)}
    return [node.node_name for node in part.nodes if node.node_name not in followed]


def _beginnings(name: str, inner: Mapping[str, Pipeline]) -> Sequence[str]:
    """Return a node's name, or the first nodes of its expansion."""
    if name not in inner:
        return (name,)
    part = inner[name]
    following = {edge.target for edge in part.edges}
    following |= {
        node.node_name
        for node in part.nodes
        if any(reference.node for _, reference in references(node.input))
    }
    return [node.node_name for node in part.nodes if node.node_name not in following]

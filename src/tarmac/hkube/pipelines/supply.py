"""The values for nodes' inputs: the run's input and results of other nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.errors import RequestError
from tarmac.formats import Reference, value_at
from tarmac.hkube.pipelines.batches import Inputs, count_tasks
from tarmac.hkube.pipelines.graph import Graph, GraphNode
from tarmac.hkube.pipelines.interface import NodeFailure
from tarmac.hkube.pipelines.progress import Progress
from tarmac.hkube.pipelines.templates import RawBatch


class PipelineStopped(Exception):  # noqa: N818 - the state catches it, and keeps its reason
    """The pipeline has failed; the message says why."""


# The outcome for a missing task of a shorter batch.
_NO_TASK = NodeFailure("")


class Supply:
    """The supply of values for nodes' inputs.

    Args:
        graph: Graph of the pipeline's nodes.
        progress: Progress of each node, by name. It holds the nodes' results.
        flow_input: Input of the run, which ``@flowInput`` refers to.
    """

    def __init__(self, graph: Graph, progress: Mapping[str, Progress], flow_input: Any) -> None:
        self._nodes = graph.nodes
        self._progress = progress
        self._flow_input = flow_input

    def inputs(self, node: GraphNode, index: int | None) -> Inputs:
        """Return the inputs of a node's tasks.

        Args:
            node: Node whose needed nodes are all complete.
            index: Batch index of the leader's task that they follow. None if the node follows no
                batch.

        Raises:
            PipelineStopped: A batch refers to a value that a result lacks.
        """
        values = [
            self._followed(node, number, index)
            if number in node.following
            else self.value(node, number)
            for number in range(len(node.template.sources))
        ]
        lengths = [len(values[number]) for number in node.batches]
        count = count_tasks(lengths, is_cartesian=node.is_cartesian)
        return Inputs(node.template, values, node.batches, node.is_cartesian, count)

    def value(self, node: GraphNode, number: int) -> Any:
        """Return a place's value for all tasks of a node, or the elements of its batch.

        Raises:
            PipelineStopped: A batch refers to a value that a result lacks.
        """
        settled = self._progress[node.name].settled
        if number not in settled:
            settled[number] = self._whole(node, node.template.sources[number])
        return settled[number]

    def _whole(self, node: GraphNode, source: Reference | RawBatch) -> Any:
        if isinstance(source, RawBatch):
            return source.elements
        if source.node is None:
            return _taken(node, source, self._flow_input)
        progress = self._progress[source.node]
        if not self._nodes[source.node].is_batch:
            return _taken(node, source, progress.ended[None])
        return [_value_or_none(result, source) for result in progress.results()]

    def _followed(self, node: GraphNode, number: int, index: int | None) -> Any:
        source = node.template.sources[number]
        assert isinstance(source, Reference)
        outcome = self._progress[source.root].ended.get(index, _NO_TASK)
        if isinstance(outcome, NodeFailure):
            return () if source.is_batch else None
        return _taken(node, source, outcome)


def check_flow_input(graph: Graph, flow_input: Any, pipeline: str) -> None:
    """Refuse a run's input that lacks a value that a node refers to.

    Raises:
        RequestError: A value is missing; the message uses HKube's words.
    """
    for name, node in graph.nodes.items():
        for source in node.template.sources:
            if isinstance(source, RawBatch) or not source.is_flow_input:
                continue
            try:
                value_at(flow_input, source.path)
            except KeyError:
                path = ".".join((source.root, *source.path))
                raise RequestError(
                    f"pipeline {pipeline}: node {name} takes {source.text}: unable to find {path}"
                ) from None


def _taken(node: GraphNode, source: Reference, value: Any) -> Any:
    if not source.is_batch:
        return _value_or_none(value, source)
    try:
        elements = value_at(value, source.path)
    except KeyError:
        path = ".".join(source.path)
        raise PipelineStopped(f"{node.name}: {source.text}: {source.root} has no {path}") from None
    return elements if isinstance(elements, list) else ()


def _value_or_none(value: Any, source: Reference) -> Any:
    try:
        return value_at(value, source.path)
    except KeyError:
        return None

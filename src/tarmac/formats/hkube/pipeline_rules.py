"""HKube's rules for a pipeline beyond its schema, with HKube's own messages where they exist.

Sources: kube-HPC/hkube at 261d3d06, core/api-server/lib/validation/{pipelines,gateways}.js and
lib/service/pipeline-creator.js; kube-HPC/DAG.hkube 2.1.25, lib/dag/dag.js.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tarmac.errors import RequestError
from tarmac.formats.hkube.node_specs import spec_faults
from tarmac.formats.hkube.pipeline import Node, Pipeline
from tarmac.formats.hkube.references import (
    DATA_SOURCE,
    FLOW_INPUT,
    marked_texts,
    read_raw_batch,
    read_reference,
    references,
    value_at,
)
from tarmac.jobs import find_cycle

Path = tuple[str | int, ...]

_RESERVED = (FLOW_INPUT, DATA_SOURCE)
_STORAGE = "$$"
_STATELESS, _STATEFUL = "stateless", "stateful"
# The search for the nearest name is slow, and nobody reads more hints.
_MAX_HINTS = 20

# Kinds of nodes that Tarmac does not run, with the reason.
_CLUSTER_KINDS = {
    "debug": "waits for a developer's process to connect to the cluster; kind algorithm runs it",
    "dataSource": "takes files from a store of the cluster's",
    "gateway": "opens an address of the cluster's for a streaming pipeline",
}


class Fault(NamedTuple):
    """A fault in a pipeline.

    Attributes:
        path: Keys that lead to the value in the pipeline.
        message: Description of the fault, for the user.
    """

    path: Path
    message: str


def pipeline_faults(pipeline: Pipeline) -> Iterator[Fault]:
    """Yield the faults for which HKube would refuse a pipeline that fits its schema."""
    nodes = pipeline.nodes
    if not nodes:
        yield Fault(("nodes",), "pipeline must have at least one node")
    outputs = [number for number, node in enumerate(nodes) if node.kind == "output"]
    for number in outputs[1:]:
        yield Fault(("nodes", number, "kind"), "pipeline can not have more than one output")
    by_name = {node.name: node for node in reversed(nodes)}
    for number, name in enumerate(pipeline.options.debug_override):
        if name not in by_name:
            yield Fault(
                ("options", "debugOverride", number),
                f"debugOverride node not in nodes list: {name!r}",
            )
    seen: set[str] = set()
    # Collected once: an input may be large.
    marks = [list(marked_texts(node.input)) for node in nodes]
    for number, node in enumerate(nodes):
        yield from _node_faults(pipeline, number, node, seen)
        seen.add(node.name)
    yield from _order_faults(pipeline, by_name, marks)


def _node_faults(pipeline: Pipeline, number: int, node: Node, seen: set[str]) -> Iterator[Fault]:
    path: Path = ("nodes", number)
    if node.kind == "algorithm" and not node.algorithm_name:
        yield Fault(path, "please provide algorithm name: algorithmName is missing")
    if node.name in seen:
        yield Fault((*path, "nodeName"), f'found duplicate node "{node.name}"')
    if node.name in _RESERVED:
        text = f'pipeline "{pipeline.name}" has invalid reserved name "{node.name}"'
        yield Fault((*path, "nodeName"), text)
    for inner, message in spec_faults(pipeline.name, node):
        yield Fault((*path, *inner), message)
    if node.kind == "gateway" and node.state_type not in (None, "", _STATEFUL):
        text = f'Gateway node {node.name} stateType must be "stateful". Got {node.state_type}'
        yield Fault((*path, "stateType"), text)
    if pipeline.kind == "stream":
        yield from _stream_node_faults(path, node)


def _text_faults(node: Node) -> Iterator[Fault]:
    """Yield the faults of an input's texts: keys of a cluster's storage, invalid raw batches."""
    for path, text in marked_texts(node.input):
        if text.startswith(_STORAGE):
            reason = "is a key of a cluster's storage, which only the cluster writes"
            yield Fault(path, f"{text!r:.80}: {_STORAGE} {reason}")
        try:
            read_raw_batch(text)
        except RequestError as error:
            yield Fault(path, error.message)


def _stream_node_faults(path: Path, node: Node) -> Iterator[Fault]:
    most = node.max_stateless_count
    if node.state_type != _STATELESS:
        for key, value in (
            ("minStatelessCount", node.min_stateless_count),
            ("maxStatelessCount", most),
        ):
            if value:
                yield Fault(
                    (*path, key),
                    "Nodes which are not stateType=stateless cant have minStatelessCount or "
                    "maxStatelessCount",
                )
    elif most is not None and node.min_stateless_count > most:
        yield Fault(
            (*path, "maxStatelessCount"),
            "maxStatelessCount must be greater or equal to minStatelessCount",
        )


def _order_faults(
    pipeline: Pipeline,
    by_name: Mapping[str, Node],
    marks: Sequence[Sequence[tuple[Path, str]]],
) -> Iterator[Fault]:
    """Yield the faults in the dependencies between nodes."""
    needs: dict[str, list[str]] = {name: [] for name in by_name}
    num_hints = 0
    for number, node in enumerate(pipeline.nodes):
        for path, text in marks[number]:
            reference = read_reference(text)
            source = reference.node if reference is not None else None
            if source is None:
                continue
            place = ("nodes", number, "input", *path)
            if source not in by_name:
                message = f'node "{node.name}" is depend on node "{source}" which is not exists'
                num_hints += 1
                near = num_hints <= _MAX_HINTS and difflib.get_close_matches(source, by_name, n=1)
                yield Fault(place, f"{message}; did you mean {near[0]!r}?" if near else message)
            elif pipeline.kind == "stream" and by_name[source].kind != "dataSource":
                yield Fault(
                    place,
                    'the "@" sign is not allowed in "stream" pipeline, please use the '
                    '"streaming.flows" property instead',
                )
            else:
                needs[node.name].append(source)
    for edge in pipeline.edges:
        source, target = edge.source, edge.target
        if isinstance(source, str) and isinstance(target, str) and {source, target} <= needs.keys():
            needs[target].append(source)
    circle = find_cycle(needs) if pipeline.kind == "batch" else []
    if circle:
        number = next(n for n, node in enumerate(pipeline.nodes) if node.name == circle[0])
        yield Fault(
            ("nodes", number, "input"),
            f"cyclic nodes are not allowed on batch pipeline: {' needs '.join(circle)}",
        )
    yield from _output_faults(pipeline, needs)


def _output_faults(pipeline: Pipeline, needs: Mapping[str, list[str]]) -> Iterator[Fault]:
    needed = {name for names in needs.values() for name in names}
    for number, node in enumerate(pipeline.nodes):
        if node.kind != "output":
            continue
        if pipeline.kind == "stream":
            yield Fault(
                ("nodes", number, "kind"),
                f'node "{node.name}" from kind output can not be used in a streaming pipeline',
            )
        elif node.name in needed:
            yield Fault(("nodes", number), f'node "{node.name}" should not have child nodes')
        elif not needs[node.name]:
            yield Fault(("nodes", number), f'node "{node.name}" should have parent nodes')


def flow_input_faults(pipeline: Pipeline, others: Sequence[Any] = ()) -> Iterator[Fault]:
    """Yield the references to values missing from the run's input, as HKube checks before a run.

    Args:
        pipeline: Pipeline whose references to ``flowInput`` are checked against its ``flow_input``.
        others: The ``flowInput`` of each pipeline that its nodes name. A value in any of them also
            counts. Default: none.
    """
    inputs = [pipeline.flow_input] if "flow_input" in pipeline.model_fields_set else []
    inputs += [other for other in others if other is not None]
    for number, node in enumerate(pipeline.nodes):
        for path, reference in references(node.input):
            if reference.root != FLOW_INPUT:
                continue
            if not any(_has(flow_input, reference.path) for flow_input in inputs):
                name = ".".join((FLOW_INPUT, *reference.path))
                yield Fault(("nodes", number, "input", *path), f"unable to find {name}")


def _has(value: Any, path: Sequence[str]) -> bool:
    try:
        value_at(value, path)
    except KeyError:
        return False
    return True


def cluster_faults(pipeline: Pipeline) -> Iterator[Fault]:
    """Yield the features that only a cluster supports, each with the reason."""
    if pipeline.kind == "stream":
        yield Fault(
            ("kind",),
            "a streaming pipeline runs in a cluster only, where its nodes run at the same time "
            "and exchange messages",
        )
    triggers, hooks = pipeline.triggers, pipeline.webhooks
    if triggers is not None and triggers.pipelines:
        yield Fault(
            ("triggers", "pipelines"),
            "in a cluster, results of other pipelines start it; nothing starts it here: remove "
            "it to run the pipeline here",
        )
    if triggers is not None and triggers.cron is not None and triggers.cron.enabled:
        yield Fault(
            ("triggers", "cron"),
            "a cluster starts it on a schedule; here only cron can: remove it to run the "
            "pipeline here",
        )
    for name in ("progress", "result"):
        if hooks is not None and getattr(hooks, name):
            yield Fault(
                ("webhooks", name),
                "in a cluster, a service calls it; nothing calls it here: remove it to run the "
                "pipeline here",
            )
    for number in range(len(pipeline.options.debug_override)):
        yield Fault(("options", "debugOverride", number), f"debug: {_CLUSTER_KINDS['debug']}")
    for number, node in enumerate(pipeline.nodes):
        if node.kind in _CLUSTER_KINDS:
            yield Fault(("nodes", number, "kind"), f"{node.kind}: {_CLUSTER_KINDS[node.kind]}")
        for path, message in _text_faults(node):
            yield Fault(("nodes", number, "input", *path), message)
        for path, reference in references(node.input):
            if reference.root == DATA_SOURCE:
                message = f"{reference.text}: {_CLUSTER_KINDS['dataSource']}"
                yield Fault(("nodes", number, "input", *path), message)

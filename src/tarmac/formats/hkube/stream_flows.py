"""Flows of a streaming pipeline, ``A >> B&C | B >> D``, checked as by HKube before a run.

Source: kube-HPC/hkube at 261d3d06, core/api-server/lib/service/pipeline-creator.js,
buildStreamingFlow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from tarmac.formats.hkube.fields import Path
from tarmac.formats.hkube.pipeline import Pipeline


def stream_faults(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Yield the faults of a pipeline's flows, each with its path in the pipeline."""
    streaming = pipeline.streaming
    flows = streaming.flows if streaming is not None else None
    path: Path = ("streaming", "flows")
    if pipeline.kind != "stream":
        if flows is not None:
            yield path, "streaming flow is only allowed in stream pipeline"
        return
    if streaming is None or not flows:
        yield path, "please specify a stream flow"
        return
    if not streaming.default_flow and len(flows) > 1:
        yield path, "please specify a default stream flow"
    targets: set[str] = set()
    sources: dict[str, Path] = {}
    names = {node.name for node in pipeline.nodes}
    for name, flow in flows.items():
        place = (*path, name)
        if not isinstance(flow, str) or not flow:
            yield place, f"invalid stream flow {name}"
            continue
        relations: set[tuple[str, str]] = set()
        for fault in _flow_faults(names, name, flow, relations):
            yield place, fault
        for source, target in sorted(relations):
            sources.setdefault(source, place)
            targets.add(target)
    by_name = {node.name: node for node in pipeline.nodes}
    for source, place in sources.items():
        node = by_name.get(source)
        if source not in targets and node is not None and node.state_type == "stateless":
            yield place, f'entry node "{source}" cannot be stateless on stream pipeline'


def _flow_faults(
    names: Set[str], name: str, flow: str, relations: set[tuple[str, str]]
) -> Iterator[str]:
    """Yield the faults of one flow, and add its pairs of source and target to ``relations``."""
    for expression in re.sub(r"\s", "", flow).split("|"):
        parts = [part.split("&") for part in expression.split(">>")]
        if len(parts) == 1:
            yield f"stream flow {name} should have valid flow, example: A >> B"
            continue
        for number, sources in enumerate(parts):
            following = parts[number + 1] if number + 1 < len(parts) else []
            if following == [""]:
                yield f"invalid node name after {'&'.join(sources)}"
                return
            for source in sources:
                if source not in names:
                    yield f"invalid node {source} in stream flow {name}"
                for target in following:
                    shown = f"{source} >> {target}"
                    if source == target:
                        yield f"invalid relation found {shown} in flow {name}"
                    elif (source, target) in relations:
                        yield f"duplicate relation found {shown} in flow {name}"
                    relations.add((source, target))

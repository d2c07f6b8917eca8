"""A job with a pipeline taken apart: what runs, and what it may name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError, unknown_name
from tarmac.formats import read_algorithm, read_pipeline, read_tuner_spec
from tarmac.hkube.pipelines import PipelineState
from tarmac.hkube.running.expansion import MAX_DEPTH, TUNER, expand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.formats import Algorithm, Pipeline
    from tarmac.hkube.pipelines import NodeForecast
    from tarmac.jobs import Job


@dataclasses.dataclass(frozen=True, slots=True)
class PipelinePlan:
    """What a job with a pipeline does.

    Attributes:
        pipeline: With stored pipelines in the place of the nodes that name them.
        algorithms: By name; those of nodes, and those that algorithms may start.
        stored: Pipelines by name, that tuners and algorithms may start.
        bodies: The same as they were stored.
        is_algorithm: Whether it is one task of one algorithm, as HKube makes of ``exec/algorithm``.
    """

    pipeline: Pipeline
    algorithms: Mapping[str, Algorithm]
    stored: Mapping[str, Pipeline]
    bodies: Mapping[str, Mapping[str, Any]]
    is_algorithm: bool

    @property
    def needed(self) -> Mapping[str, Algorithm]:
        """The algorithms that nodes name, of the pipeline and of those that its tuners run."""
        parts = [self.pipeline]
        for part in parts:
            for node in part.nodes:
                if node.kind == TUNER:
                    name = read_tuner_spec(node.spec).objective_pipeline
                    inner = expand(self.stored[name], self.stored)
                    if all(inner.name != known.name for known in parts):
                        parts.append(inner)
        names = [node.algorithm_name or "" for part in parts for node in part.nodes]
        return {name: self.algorithms[name] for name in names if name in self.algorithms}


def plan_pipeline(job: Job) -> PipelinePlan:
    """Take a job with a pipeline apart.

    Raises:
        RequestError: It is wrong: a node names what is not there, needs itself, and so on.
    """
    if job.pipeline is None:
        raise RequestError(f"{job.name} has no pipeline", hint="tarmac run FILE, or tarmac.run")
    pipeline = read_pipeline(job.pipeline)
    algorithms = {}
    stored = {}
    bodies = {}
    for definition in job.algorithms:
        if "nodes" in definition:
            part = read_pipeline(definition)
            stored[part.name], bodies[part.name] = part, definition
        else:
            algorithm = read_algorithm(definition)
            algorithms[algorithm.name] = algorithm
    expanded = expand(pipeline, stored)
    PipelineState(expanded, expanded.flow_input or {})
    refuse_unknown(expanded, algorithms, stored)
    only = expanded.nodes[0]
    return PipelinePlan(
        pipeline=expanded,
        algorithms=algorithms,
        stored=stored,
        bodies=bodies,
        is_algorithm=len(expanded.nodes) == 1
        and only.node_name == only.algorithm_name == pipeline.name,
    )


def forecast(plan: PipelinePlan) -> Sequence[NodeForecast]:
    """Return what is known of a pipeline's tasks before any has run, node by node."""
    return PipelineState(plan.pipeline, plan.pipeline.flow_input or {}).known_tasks()


def refuse_unknown(
    pipeline: Pipeline,
    algorithms: Mapping[str, Algorithm],
    stored: Mapping[str, Pipeline],
) -> None:
    """Refuse a pipeline that names what is not there, itself or in the pipelines that it tunes.

    Args:
        pipeline: With stored pipelines in the place of the nodes that name them.
        algorithms: Algorithms that the run knows, by name.
        stored: Stored pipelines that the run knows, by name.

    Raises:
        RequestError: It does, or pipelines tune each other in a circle.
    """
    _refuse_unknown(pipeline, algorithms, stored, (pipeline.name,), set())


def _refuse_unknown(
    pipeline: Pipeline,
    algorithms: Mapping[str, Algorithm],
    stored: Mapping[str, Pipeline],
    chain: tuple[str, ...],
    checked: set[str],
) -> None:
    for node in pipeline.nodes:
        if node.kind != TUNER:
            if node.algorithm_name is not None and node.algorithm_name not in algorithms:
                _refuse_algorithm(node.node_name, node.algorithm_name, algorithms)
            continue
        name = read_tuner_spec(node.spec).objective_pipeline
        if name in chain:
            circle = " > ".join((*chain, name))
            raise RequestError(
                f"node {node.node_name}: pipelines tune each other in a circle: {circle}"
            )
        if name not in stored:
            error = unknown_name("pipeline", name, dict.fromkeys(stored, ""))
            raise RequestError(f"node {node.node_name}: {error.message}", hint=error.hint)
        if len(chain) > MAX_DEPTH:
            raise RequestError(f"pipelines tune each other more than {MAX_DEPTH} deep")
        if name not in checked:
            # A trial gives it its flowInput, so what refers to that cannot be checked yet.
            inner = expand(stored[name], stored)
            _refuse_unknown(inner, algorithms, stored, (*chain, name), checked)
            checked.add(name)


def _refuse_algorithm(node: str, name: str, algorithms: Mapping[str, Algorithm]) -> None:
    error = unknown_name("algorithm", name, dict.fromkeys(algorithms, ""))
    raise RequestError(
        f"node {node}: {error.message}",
        hint=f"{error.hint}\nSay where its definition lies: --algorithms DIR",
    )

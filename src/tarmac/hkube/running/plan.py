"""The plan of a job with a pipeline: its expanded pipeline, algorithms and stored pipelines."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.errors import RequestError, unknown_name
from tarmac.formats import Algorithm, Pipeline, read_algorithm, read_pipeline, read_tuner_spec
from tarmac.hkube.pipelines import NodeForecast, PipelineState
from tarmac.hkube.running.expansion import MAX_DEPTH, TUNER, expand
from tarmac.jobs import Job


@dataclasses.dataclass(frozen=True, slots=True)
class PipelinePlan:
    """The plan of a job with a pipeline.

    Attributes:
        pipeline: Pipeline to run, without nodes that name stored pipelines.
        algorithms: Algorithms by name, of nodes and of calls by algorithms.
        stored: Pipelines by name that tuners and algorithms may start.
        bodies: Definitions of the stored pipelines, by name, before parsing.
        is_algorithm: Whether the pipeline is a single task of one algorithm, as in HKube's
            ``exec/algorithm``.
    """

    pipeline: Pipeline
    algorithms: Mapping[str, Algorithm]
    stored: Mapping[str, Pipeline]
    bodies: Mapping[str, Mapping[str, Any]]
    is_algorithm: bool

    @property
    def needed(self) -> Mapping[str, Algorithm]:
        """The algorithms of the pipeline's nodes and of its tuners' objective pipelines."""
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
    """Return the plan of a job with a pipeline.

    Raises:
        RequestError: The pipeline is invalid, for example has an unknown name or a cycle.
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
    """Return a forecast of a pipeline's tasks before any has run, for each node."""
    return PipelineState(plan.pipeline, plan.pipeline.flow_input or {}).known_tasks()


def refuse_unknown(
    pipeline: Pipeline,
    algorithms: Mapping[str, Algorithm],
    stored: Mapping[str, Pipeline],
) -> None:
    """Refuse unknown names in a pipeline and in the objective pipelines of its tuners.

    Args:
        pipeline: Pipeline from `expand`, without nodes that name stored pipelines.
        algorithms: Algorithms that the run knows, by name.
        stored: Stored pipelines that the run knows, by name.

    Raises:
        RequestError: A name is unknown, or pipelines that tune each other form a cycle.
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
                f"node {node.node_name}: pipelines tune each other in a cycle: {circle}"
            )
        if name not in stored:
            error = unknown_name("pipeline", name, dict.fromkeys(stored, ""))
            raise RequestError(f"node {node.node_name}: {error.message}", hint=error.hint)
        if len(chain) > MAX_DEPTH:
            raise RequestError(f"pipelines tune each other more than {MAX_DEPTH} deep")
        if name not in checked:
            # Each trial sets the flowInput, so references to it cannot be checked yet.
            inner = expand(stored[name], stored)
            _refuse_unknown(inner, algorithms, stored, (*chain, name), checked)
            checked.add(name)


def _refuse_algorithm(node: str, name: str, algorithms: Mapping[str, Algorithm]) -> None:
    error = unknown_name("algorithm", name, dict.fromkeys(algorithms, ""))
    raise RequestError(
        f"node {node}: {error.message}",
        hint=f"{error.hint}\nName the directory of its definition: --algorithms DIR",
    )

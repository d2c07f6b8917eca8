"""A pipeline as HKube's API server validates it.

Keys that are not in the schema are accepted. Source of the fields, kube-HPC/hkube at 261d3d06:
core/openapi-spec/swagger/components/schemas/pipelines/pipeline.yaml and pipelineNode.yaml.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tarmac.formats.hkube.coercion import (
    count,
    different,
    flag,
    mapping,
    mapping_or_none,
    sequence,
    text_of_scalar,
    whole,
    whole_or_none,
)
from tarmac.formats.hkube.rules import (
    algorithm_name,
    cron_pattern,
    experiment_name,
    one_of,
    pipeline_name,
    short_text,
    url,
)

KINDS = ("algorithm", "pipeline", "debug", "dataSource", "gateway", "output", "hyperparamsTuner")
_POLICIES = ("Never", "Always", "OnError", "OnCrash")
_LEVELS = ("trace", "debug", "info", "warn", "error", "critical")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel)


class _Closed(_Part):
    model_config = ConfigDict(extra="forbid")


Text = Annotated[str, BeforeValidator(text_of_scalar)]
ShortText = Annotated[str, BeforeValidator(short_text)]
Flag = Annotated[bool, BeforeValidator(flag)]
Count = Annotated[int, BeforeValidator(count)]
Values = Annotated[list[Any], BeforeValidator(sequence)]
AlgorithmName = Annotated[str | None, BeforeValidator(algorithm_name)]
ExperimentName = Annotated[str, BeforeValidator(experiment_name)]
Kind = Annotated[str, one_of(*KINDS)]
Policy = Annotated[str, one_of(*_POLICIES)]
Level = Annotated[str, one_of(*_LEVELS)]


class Retry(_Part):
    """The retry policy of a node's tasks.

    Attributes:
        policy: ``Never``, ``Always``, ``OnError`` (an error of the algorithm), or ``OnCrash`` (the
            process exited, or its connection was lost). Default: ``OnCrash``.
        limit: Largest number of attempts of a task, including the first. At least 1. Default 3.
    """

    policy: Policy = "OnCrash"
    limit: Annotated[int, whole(1)] = 3


class _Metrics(_Part):
    tensorboard: Flag | None = None


class Node(_Part):
    """A node of a pipeline.

    Attributes:
        node_name: Name of the node, unique in the pipeline.
        algorithm_name: Name of the algorithm that runs the node's tasks. None for kinds without an
            algorithm.
        input: Input of the node's tasks, with references to other nodes and to ``flowInput``.
        ttl: Time limit of a task in seconds. None or 0: no limit.
        include_in_result: Whether the node's result is part of the pipeline's result even if other
            nodes use it.
        metrics: TensorBoard settings of the node. Tarmac validates and keeps them without using
            them.
        retry: Retry policy of the node's tasks.
        batch_operation: Combination of several batches in the input: ``indexed`` (default) or
            ``cartesian``.
        kind: Node kind, one of `KINDS`. Default: ``algorithm``.
        min_stateless_count: Fewest instances of a stateless node in a streaming pipeline. Default
            0.
        max_stateless_count: Most instances of a stateless node in a streaming pipeline. None if the
            file does not set it.
        spec: Settings for the node's kind. None if the file does not set it.
        state_type: ``stateless`` or ``stateful``, for a node of a streaming pipeline.
        task_id: Name of the task if an algorithm runs alone. Only Tarmac has this field; HKube
            generates a name.
    """

    node_name: ShortText
    algorithm_name: AlgorithmName = None
    input: Values = Field(default_factory=list)
    ttl: Count | None = None
    include_in_result: Flag = False
    metrics: Annotated[_Metrics | None, BeforeValidator(mapping)] = None
    retry: Annotated[Retry, BeforeValidator(mapping)] = Retry()
    batch_operation: Annotated[str, one_of("indexed", "cartesian")] = "indexed"
    kind: Kind = "algorithm"
    min_stateless_count: Count = 0
    # HKube's validator reads null as 0.
    max_stateless_count: Annotated[int | None, BeforeValidator(count)] = None
    spec: Annotated[dict[str, Any] | None, BeforeValidator(mapping)] = None
    state_type: Any = None
    task_id: Any = None

    @property
    def name(self) -> str:
        """Name of the node in the pipeline."""
        return self.node_name


class _Concurrent(_Closed):
    amount: Annotated[int | None, whole(1, 10_000)] = None
    reject_on_failure: Flag = True


class Options(_Part):
    """Options of a pipeline.

    Attributes:
        ttl: Time limit of the run in seconds, counted from the request. Default 3600.
        active_ttl: Time limit of the run in seconds, counted from its start. None: no limit.
        batch_tolerance: Percentage of failed tasks in a batch that ends the pipeline. Default 80.
        concurrent_pipelines: HKube's limit on concurrent runs. Tarmac keeps it without using it.
        progress_verbosity_level: Log level of HKube's progress reports, such as ``info`` (default).
            Tarmac keeps it without using it.
        debug_override: Names of nodes to run with the kind ``debug``.
    """

    ttl: Annotated[int, whole()] = 3600
    active_ttl: Annotated[int | None, whole_or_none(1)] = None
    batch_tolerance: Annotated[int, whole(0, 100)] = 80
    concurrent_pipelines: Annotated[_Concurrent | None, BeforeValidator(mapping)] = None
    progress_verbosity_level: Level = "info"
    debug_override: Annotated[list[Text], BeforeValidator(different), BeforeValidator(sequence)] = (
        Field(default_factory=list)
    )


class _Cron(_Part):
    pattern: Annotated[str | None, BeforeValidator(cron_pattern)] = None
    enabled: Flag = False


class Triggers(_Closed):
    """The triggers that start a pipeline in a cluster.

    Attributes:
        pipelines: Names of pipelines whose results start this one.
        cron: Cron pattern that starts the pipeline, and whether it is enabled.
    """

    pipelines: Annotated[list[ShortText], BeforeValidator(different), BeforeValidator(sequence)] = (
        Field(default_factory=list)
    )
    cron: Annotated[_Cron | None, BeforeValidator(mapping)] = None


class _Webhooks(_Closed):
    progress: Annotated[str | None, BeforeValidator(url)] = None
    result: Annotated[str | None, BeforeValidator(url)] = None


class _Streaming(_Part):
    default_flow: Text | None = None
    flows: Annotated[dict[str, Any] | None, BeforeValidator(mapping)] = None


class Edge(_Part):
    """A dependency between two nodes without a reference to a result.

    Attributes:
        source: Name of the node that runs first. HKube ignores an edge without node names.
        target: Name of the node that waits.
    """

    source: Any = None
    target: Any = None


def _edges(value: Any) -> list[Any]:
    # HKube accepts any element, and ignores those without node names.
    return [part for part in sequence(value) if isinstance(part, dict)]


Tag = Annotated[str, BeforeValidator(lambda value: short_text(value, 32))]


class Pipeline(_Part):
    """The fields of a pipeline, under HKube's own names.

    Attributes:
        name: Pipeline name: letters, digits, dashes, dots, underscores or a colon.
        kind: ``batch`` (default), or ``stream``, which only a cluster can run.
        experiment_name: HKube experiment of the pipeline, at most 32 characters. Default: ``main``.
            Tarmac keeps it without using it.
        description: Description for people. Tarmac keeps it without using it.
        nodes: Nodes in the order of the file. References and edges set the order of the run.
        flow_input: Value of ``@flowInput``. None if the file does not set it.
        webhooks: URLs that HKube calls on progress and on the result. Tarmac refuses to run a
            pipeline that sets one.
        options: Time limits, batch tolerance and further `Options` of the pipeline.
        priority: Priority from 1 to 5, the highest. Default 3.
        triggers: Other pipelines, or a cron pattern, that start the pipeline in a cluster. Tarmac
            refuses to run a pipeline with an active trigger.
        tags: Labels of at most 32 characters each. Tarmac keeps them without using them.
        root_job_id: ID of the HKube job that this one belongs to. Tarmac keeps it without using it.
        streaming: Flows between the nodes of a streaming pipeline. Tarmac only validates them.
        edges: Dependencies between nodes in addition to references.
        version: Version of the pipeline in HKube. Tarmac keeps it without using it.
    """

    name: Annotated[str, BeforeValidator(pipeline_name)]
    kind: Annotated[str, one_of("batch", "stream")] = "batch"
    experiment_name: ExperimentName = "main"
    description: Text | None = None
    nodes: Annotated[list[Annotated[Node, BeforeValidator(mapping)]], BeforeValidator(sequence)] = (
        Field(default_factory=list)
    )
    flow_input: Annotated[dict[str, Any] | None, BeforeValidator(mapping_or_none)] = None
    webhooks: Annotated[_Webhooks | None, BeforeValidator(mapping)] = None
    options: Annotated[Options, BeforeValidator(mapping)] = Options()
    priority: Annotated[int, whole(1, 5)] = 3
    triggers: Annotated[Triggers | None, BeforeValidator(mapping)] = None
    tags: Annotated[list[Tag], BeforeValidator(sequence)] = Field(default_factory=list)
    root_job_id: Text | None = None
    streaming: Annotated[_Streaming | None, BeforeValidator(mapping)] = None
    edges: Annotated[list[Edge], BeforeValidator(_edges)] = Field(default_factory=list)
    version: Text | None = None

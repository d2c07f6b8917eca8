"""Rules for the ``spec`` of a node, by the node's kind.

Sources: kube-HPC/hkube at 261d3d06, core/openapi-spec/swagger/components/schemas/{output,gateway,
hyperparamsTuner}; core/api-server/lib/validation/{hyperparams-tuners,data-sources}.js and
lib/service/{pipeline-creator,hyperparams-tuner}.js.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from tarmac.formats.hkube.coercion import number, text_of_scalar
from tarmac.formats.hkube.fields import Path, message
from tarmac.formats.hkube.pipeline import Node, Pipeline
from tarmac.formats.hkube.rules import algorithm_name, own_memory, pipeline_name
from tarmac.formats.hkube.tuner_spec import TunerSpec, draw_faults, schema_faults


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel)


Text = Annotated[str, BeforeValidator(text_of_scalar)]
Number = Annotated[float, BeforeValidator(number)]


class _Output(_Part):
    description: Text | None = None
    mem: Annotated[float | None, BeforeValidator(own_memory)] = None


class _Gateway(_Output):
    name: Annotated[str | None, BeforeValidator(algorithm_name)] = None
    cpu: Number | None = None


_MODELS: dict[str, type[BaseModel]] = {
    # Settings for the pod of HKube's tuner.
    "hyperparamsTuner": _Gateway,
    "output": _Output,
    "gateway": _Gateway,
}


def spec_faults(pipeline: str, node: Node) -> Iterator[tuple[Path, str]]:
    """Yield the faults of a node's ``spec``, each with its path in the node.

    Args:
        pipeline: Name of the pipeline. HKube derives the tuner's name from it.
        node: Node of the pipeline, of any kind.
    """
    spec = node.spec
    if node.kind == "pipeline":
        yield from _pipeline_faults(node)
    elif node.kind == "dataSource" and not spec:
        yield ("spec",), "you must provide a valid data source spec"
    elif node.kind == "hyperparamsTuner":
        yield from _tuner_faults(pipeline, spec)
    model = _MODELS.get(node.kind)
    if model is None or spec is None:
        return
    try:
        model.model_validate(spec)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            yield ("spec", *detail["loc"]), message(detail)


def _pipeline_faults(node: Node) -> Iterator[tuple[Path, str]]:
    name = (node.spec or {}).get("name")
    if name in (None, ""):
        yield ("spec",), f"node {node.name} must have spec with name"
        return
    try:
        pipeline_name(name)
    except ValueError as error:
        yield ("spec", "name"), str(error)


def _tuner_faults(pipeline: str, spec: dict[str, Any] | None) -> Iterator[tuple[Path, str]]:
    yield from schema_faults(spec)
    name = f"{pipeline}-hyperparamstuner"
    try:
        algorithm_name(name)
    except ValueError as error:
        if spec is not None:
            yield ("spec",), f"HKube calls the tuner {name!r}, and would refuse it: {error}"


def tuning_faults(pipeline: Pipeline) -> Iterator[tuple[Path, str]]:
    """Yield the faults of tuner nodes that HKube accepts but that prevent any draw, with paths."""
    for number_of_node, node in enumerate(pipeline.nodes):
        if node.kind == "hyperparamsTuner":
            for inner, fault in draw_faults(TunerSpec.model_validate(node.spec)):
                yield ("nodes", number_of_node, *inner), fault

"""The ``spec`` of a node of the kind hyperparamsTuner.

Sources, of kube-HPC/hkube at 261d3d06: the schemas of core/openapi-spec,
swagger/components/schemas/hyperparamsTuner; core/api-server, lib/validation/hyperparams-tuners.js;
and the tuner itself, core/algorithm-hyperparams-tuner/hyperparamsAlgorithm.py. HKube's tuner fails
at each ``loguniform`` (it gives Optuna a list for a name), each ``discrete_uniform`` (no step) and
each ``PartialFixed`` (no sampler for the rest). Tarmac supports all three.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tarmac.documents import show_path
from tarmac.errors import RequestError
from tarmac.formats.hkube.coercion import mapping, number, sequence, text_of_scalar
from tarmac.formats.hkube.fields import Path, message
from tarmac.formats.hkube.rules import one_of, pipeline_name

Suggest = Literal["uniform", "loguniform", "int", "discrete_uniform", "categorical"]
SamplerName = Literal["Grid", "PartialFixed", "Random", "TPE", "CmaEs"]

# Optuna keeps a grid's combinations in memory, and scans all trials before each new one.
_MAX_COMBINATIONS = 100_000


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


Text = Annotated[str, BeforeValidator(text_of_scalar)]
Number = Annotated[float, BeforeValidator(number)]
# HKube's validator reads null as the number 0 if the key exists.
NumberIfGiven = Annotated[float | None, BeforeValidator(number)]
SuggestGiven = Annotated[Suggest, one_of(*get_args(Suggest))]
SamplerGiven = Annotated[SamplerName, one_of(*get_args(SamplerName))]
MappingIfGiven = Annotated[dict[str, Any] | None, BeforeValidator(mapping)]


class HyperParam(_Part):
    """A parameter and its possible values.

    Attributes:
        name: Name of the parameter. The objective pipeline has its value at
            ``@flowInput.hyperParams.NAME``.
        suggest: Distribution of the values, one of `Suggest`.
        low: Smallest number to draw. None if the file does not set it.
        high: Largest number to draw. None if the file does not set it.
        q: Step from ``low`` for ``discrete_uniform``. Only Tarmac has this field; HKube has no
            step.
        choices: Values to draw from for ``categorical``.
    """

    name: Text
    suggest: SuggestGiven
    low: NumberIfGiven = None
    high: NumberIfGiven = None
    q: NumberIfGiven = None
    choices: Annotated[list[Any] | None, BeforeValidator(sequence)] = None


class Sampler(_Part):
    """The sampler of a trial's parameters.

    Attributes:
        name: Sampler: ``Grid``, ``PartialFixed``, ``Random``, ``TPE`` or ``CmaEs``.
            ``PartialFixed`` draws the other parameters as ``TPE`` does.
        search_space: Values of each parameter, by name, for ``Grid``.
        fixed_values: Values of the parameters that do not vary, by name, for ``PartialFixed``.
        seed: Seed of all draws. Default 0. Only Tarmac has this field; draws in HKube cannot be
            repeated.
    """

    name: SamplerGiven
    search_space: MappingIfGiven = None
    fixed_values: MappingIfGiven = None
    seed: Number = 0


class TunerSpec(_Part):
    """The specification of a hyperparameter search.

    Attributes:
        objective_pipeline: Name of the pipeline to run for each trial.
        num_trials: Largest number of trials, at least 1. A grid with fewer combinations ends
            earlier.
        hyper_params: Parameters to draw, in this order. ``Grid`` uses its search space instead.
        sampler: Sampler that draws the parameters. Default: ``TPE``, as in Optuna.
    """

    objective_pipeline: Annotated[str, BeforeValidator(pipeline_name)] = Field(
        alias="objectivePipeline"
    )
    num_trials: Number = Field(alias="numberOfTrials")
    hyper_params: Annotated[
        tuple[Annotated[HyperParam, BeforeValidator(mapping)], ...] | None,
        BeforeValidator(sequence),
    ] = Field(alias="hyperParams", default=None)
    sampler: Annotated[Sampler, BeforeValidator(mapping)] = Sampler(name="TPE")

    @property
    def parameters(self) -> tuple[HyperParam, ...]:
        """Parameters to draw, in order: for a grid, its search space instead of ``hyperParams``."""
        if self.sampler.name != "Grid":
            return self.hyper_params or ()
        space = self.sampler.search_space or {}
        return tuple(
            HyperParam(name=name, suggest="categorical", choices=choices)
            for name, choices in space.items()
        )

    @property
    def total(self) -> int:
        """Number of trials: as requested, but at most the combinations of a grid."""
        num_trials = int(self.num_trials)
        if self.sampler.name != "Grid":
            return num_trials
        return min(num_trials, math.prod(len(param.choices or ()) for param in self.parameters))


def read_tuner_spec(spec: Mapping[str, Any] | None) -> TunerSpec:
    """Read the ``spec`` of a tuner node.

    Args:
        spec: Value of ``spec`` in the pipeline. None if the node has none. Unknown keys, and keys
            for the pod of HKube's tuner (``mem``, ``cpu``), are ignored.

    Raises:
        RequestError: HKube refuses the ``spec``, or no tuner could draw values from it. The error
            lists all problems with their paths in ``spec``.
    """
    faults = list(schema_faults(spec))
    if not faults:
        read = TunerSpec.model_validate(spec)
        faults = list(draw_faults(read))
        if not faults:
            return read
    raise RequestError("\n".join(f"{show_path(path)}: {reason}" for path, reason in faults))


def schema_faults(spec: Mapping[str, Any] | None) -> Iterator[tuple[Path, str]]:
    """Yield the faults for which HKube refuses a ``spec``, each with its path in the node."""
    if spec is None:
        yield ("spec",), "Hyper params tuner node must have spec attribute"
        return
    sampler = spec.get("sampler")
    is_grid = isinstance(sampler, dict) and sampler.get("name") == "Grid"
    if "hyperParams" not in spec and not is_grid:
        yield ("spec",), "spec must include hyperParams"
    try:
        TunerSpec.model_validate(spec)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            yield ("spec", *detail["loc"]), message(detail)


def draw_faults(spec: TunerSpec) -> Iterator[tuple[Path, str]]:
    """Yield the faults of an accepted ``spec`` that prevent any draw, with their paths."""
    if spec.num_trials < 1 or not spec.num_trials.is_integer():
        reason = f"{spec.num_trials:g}: expected a whole number of at least 1"
        yield ("spec", "numberOfTrials"), reason
    if spec.sampler.name == "Grid":
        yield from _faults_of_grid(spec.sampler.search_space)
        return
    params = spec.hyper_params or ()
    start: Path = ("spec", "hyperParams")
    if not params:
        yield start, "names no parameter"
    seen = set()
    for position, param in enumerate(params):
        if param.name in seen:
            yield (*start, position, "name"), f"{param.name!r} is named twice"
        seen.add(param.name)
        for inner, reason in _faults_of_param(param):
            yield (*start, position, *inner), reason
    if spec.sampler.name == "PartialFixed":
        yield from _faults_of_fixed(spec.sampler.fixed_values, params)


def _faults_of_param(param: HyperParam) -> Iterator[tuple[Path, str]]:
    if param.suggest == "categorical":
        if not param.choices:
            yield (), f"{param.name} is categorical, which needs choices"
        return
    needed = ("low", "high", "q") if param.suggest == "discrete_uniform" else ("low", "high")
    missing = [key for key in needed if getattr(param, key) is None]
    for key in missing:
        meaning = ", the step from low" if key == "q" else ""
        yield (), f"{param.name} is {param.suggest}, which needs {key}{meaning}"
    if missing:
        return
    assert param.low is not None
    assert param.high is not None
    if param.low > param.high:
        yield ("low",), f"{param.low:g} is above high, {param.high:g}"
    if param.suggest == "loguniform" and param.low <= 0:
        yield ("low",), f"{param.low:g}: loguniform needs one above 0"
    if param.suggest == "discrete_uniform" and param.q is not None and param.q <= 0:
        yield ("q",), f"{param.q:g}: expected a step above 0"
    if param.suggest == "int":
        for key in ("low", "high"):
            if not getattr(param, key).is_integer():
                yield (key,), f"{getattr(param, key):g}: expected a whole number"


def _faults_of_grid(space: Mapping[str, Any] | None) -> Iterator[tuple[Path, str]]:
    path: Path = ("spec", "sampler", "search_space")
    if not space:
        yield path, "is missing: Grid takes each parameter's values from it"
        return
    for name, values in space.items():
        if not isinstance(values, list) or not values:
            yield (*path, name), "expected a list of at least one value"
            return
    combinations = math.prod(map(len, space.values()))
    if combinations > _MAX_COMBINATIONS:
        reason = (
            f"has {combinations:,} combinations, more than the {_MAX_COMBINATIONS:,} that a grid "
            "may have here: use Random or TPE"
        )
        yield path, reason


def _faults_of_fixed(
    fixed: Mapping[str, Any] | None, params: Sequence[HyperParam]
) -> Iterator[tuple[Path, str]]:
    path: Path = ("spec", "sampler", "fixed_values")
    if not fixed:
        yield path, "is missing: PartialFixed takes what does not vary from it"
        return
    by_name = {param.name: param for param in params}
    for name, value in fixed.items():
        param = by_name.get(name)
        if param is None:
            yield (*path, name), f"hyperParams has no {name}; it has {', '.join(by_name)}"
        elif param.suggest == "categorical":
            if value not in (param.choices or ()):
                yield (*path, name), f"{value!r} is none of its choices"
        elif not isinstance(value, (int, float)) or isinstance(value, bool):
            yield (*path, name), "expected a number"
        elif (
            param.low is not None
            and param.high is not None
            and not param.low <= value <= param.high
        ):
            yield (*path, name), f"{value:g} is not within {param.low:g} to {param.high:g}"

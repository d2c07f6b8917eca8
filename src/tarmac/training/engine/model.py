"""A workload's model: built for its data from a seed, and replicated for other devices."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from tarmac.data import Dataset
from tarmac.errors import RequestError, quoted, without_native_stack
from tarmac.training.plan import Setting
from tarmac.workloads import Classification, NextToken, Objective, Regression, Workload


def bind_dataset(workload: Workload, dataset: Dataset) -> Workload:
    """Pass the facts about the data that a workload's model requires; see `Workload.model`.

    Raises:
        RequestError: The model needs a fact that the data lack, such as ``num_classes``.
    """
    known: dict[str, Any] = {
        "sample_shape": dataset.sample_shape,
        "num_classes": dataset.num_classes,
        "target_shape": _target_shape(dataset),
    }
    arguments = {
        name: known[name]
        for name, parameter in inspect.signature(workload.model).parameters.items()
        if name in known and parameter.default is parameter.empty
    }
    if not arguments:
        return workload
    if "target_shape" in arguments and dataset.train.targets is None:
        raise RequestError(
            f"the model of {workload.name} needs targets, which {dataset.name} lacks"
        )
    if (
        "target_shape" in arguments
        and "num_classes" not in arguments
        and dataset.num_classes is not None
        and isinstance(workload.objective, Regression)
    ):
        raise RequestError(
            f"{workload.name} predicts values, but the targets of {dataset.name} are classes",
            hint=f"Train on classes: tarmac train mlp --set dataset={quoted(dataset.name)}",
        )
    if "num_classes" in arguments and dataset.num_classes is None:
        raise RequestError(
            f"the model of {workload.name} needs num_classes, which {dataset.name} does not have",
            hint="Give Dataset(..., num_classes=N), or the parameter a default.",
        )
    return dataclasses.replace(workload, model=functools.partial(workload.model, **arguments))


def _target_shape(dataset: Dataset) -> Any:
    """Return the shape of one target, or a dictionary of shapes; None without targets."""
    targets = dataset.train.targets
    if isinstance(targets, Mapping):
        return {name: column.shape[1:] for name, column in targets.items()}
    return None if targets is None else targets.shape[1:]


def build_model(plan_workload: Workload, arguments: Mapping[str, Setting], seed: int) -> nn.Module:
    """Build a workload's model on the CPU, with its weights drawn from ``seed``.

    Raises:
        RequestError: The model refuses a setting, or has lazy layers, which need a batch to draw
            their weights.
    """
    # `torch.manual_seed` would also seed the generators of the caller's GPUs.
    torch.default_generator.manual_seed(seed)
    try:
        model = plan_workload.model(**arguments)
    except (ValueError, ArithmeticError, RuntimeError) as error:
        words = without_native_stack(str(error))
        raise RequestError(f"{name_with_settings(plan_workload, arguments)}: {words}") from error
    _refuse_lazy(model, plan_workload.name)
    return _returning_logits(model, plan_workload.objective)


def _refuse_lazy(model: nn.Module, name: str) -> None:
    """Raise a RequestError if a layer draws its weights only when it sees a batch."""
    for path, layer in model.named_modules():
        own = (*layer.parameters(recurse=False), *layer.buffers(recurse=False))
        if any(map(is_lazy, own)):
            raise RequestError(
                f"the model of {name} has a {type(layer).__name__} ({path or 'itself'}), whose "
                "weights are created only at the first batch",
                hint="Write the layer with its sizes; a model that takes `sample_shape` is given "
                "that of its dataset.",
            )


def name_with_settings(workload: Workload, arguments: Mapping[str, Setting]) -> str:
    """Return a model's name for an error message, such as ``mnist-mlp with hidden=-3``."""
    chosen = ", ".join(f"{key}={value}" for key, value in arguments.items()) or "no settings"
    return f"{workload.name} with {chosen}"


def _returning_logits(model: nn.Module, objective: Objective) -> nn.Module:
    """Make a Hugging Face model return its logits if the objective takes logits."""
    if hasattr(type(model), "base_model_prefix") and isinstance(
        objective, Classification | NextToken
    ):
        model.register_forward_hook(_logits_of)
    return model


def _logits_of(_model: nn.Module, _inputs: Any, output: Any) -> Any:
    return getattr(output, "logits", output)


def replicate(model: nn.Module, name: str, strategy: str) -> nn.Module:
    """Return a copy of a model.

    Args:
        model: Model to copy, with its weights.
        name: Name of the workload, for the error message.
        strategy: Name of the strategy that needs the copy, for the error message.

    Raises:
        RequestError: The model holds something that cannot be copied.
    """
    try:
        return copy.deepcopy(model)
    except (TypeError, RuntimeError) as error:
        raise RequestError(
            f"{strategy} cannot replicate the model of {name}: {error}",
            hint="Use --strategy ddp, which builds it once per process.",
        ) from error

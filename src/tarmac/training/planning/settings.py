"""What ``--set`` may change in a workload, and how a text becomes a value."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError, unknown_name
from tarmac.training.plan import Setting
from tarmac.workloads import TorchOptimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.workloads import Workload

__all__ = ["apply_settings", "settings_of"]

_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}

# Numbers of a recipe that are settings by their own names.
_NUMBERS = ("label_smoothing", "clip_norm", "clip_value")

# What of a recipe has settings of its own.
_PARTS = ("optimizer", "schedule", "preprocess", "augment", "test_views", "ema")

# These have options of their own.
_OPTIONS = {"optimizer.learning_rate"}


def settings_of(workload: Workload) -> dict[str, Setting]:
    """Return every setting of a workload with its default.

    They are the model's keyword parameters, the data's name, and the recipe's parts in dotted form,
    such as ``optimizer.rho``: of the optimizer and the recipe it has, where it offers several.
    """
    found: dict[str, Setting] = {}
    for parameter in inspect.signature(workload.model).parameters.values():
        if isinstance(parameter.default, Setting):
            found[parameter.name] = parameter.default
    if isinstance(workload.dataset, str):
        found["dataset"] = workload.dataset
    name = _optimizer_name(workload)
    if name is not None:
        found["optimizer"] = name
    recipe = workload.recipe
    found |= {number: getattr(recipe, number) for number in _NUMBERS}
    for part in _PARTS:
        for name, default in _values_of(getattr(recipe, part)).items():
            if isinstance(default, Setting) and f"{part}.{name}" not in _OPTIONS:
                found[f"{part}.{name}"] = default
    return found


def apply_settings(
    workload: Workload, changes: Mapping[str, Setting]
) -> tuple[Workload, dict[str, Setting]]:
    """Change a workload as ``--set`` asks.

    Args:
        workload: Stays as it is.
        changes: Values, or texts of them, by the names of `settings_of`.

    Returns:
        The changed workload, and the keyword arguments for its model that differ from its own
        defaults. A run that goes on names them all, and changes nothing by it.

    Raises:
        RequestError: An unknown name or a value of another type than the default's.
    """
    workload = _with_choices(workload, changes)
    defaults = settings_of(workload)
    values: dict[str, Setting] = {}
    for name, value in changes.items():
        if name not in defaults:
            listed = {key: f"default {default}" for key, default in defaults.items()}
            raise unknown_name(f"setting of {workload.name}", name, listed)
        values[name] = _convert(name, value, defaults[name])
    recipe = workload.recipe
    numbers: dict[str, Any] = {
        number: float(values[number]) for number in _NUMBERS if number in values
    }
    recipe = dataclasses.replace(recipe, **numbers)
    for part in _PARTS:
        inner = {
            name.partition(".")[2]: value
            for name, value in values.items()
            if name.startswith(f"{part}.")
        }
        if inner:
            part_value = _replaced(getattr(recipe, part), inner)
            recipe = dataclasses.replace(recipe, **{part: part_value})
    changed = dataclasses.replace(workload, recipe=recipe)
    parameters = inspect.signature(workload.model).parameters
    arguments = {name: values[name] for name in parameters if name in values}
    return changed, {name: value for name, value in arguments.items() if value != defaults[name]}


def _with_choices(workload: Workload, changes: Mapping[str, Setting]) -> Workload:
    """Take the dataset that is asked for, its recipe, and the optimizer."""
    if "dataset" in changes and isinstance(workload.dataset, str):
        name = str(changes["dataset"])
        recipe = workload.recipes.get(name, workload.recipe)
        workload = dataclasses.replace(workload, dataset=name, recipe=recipe)
    if "optimizer" in changes and workload.optimizers:
        name = str(changes["optimizer"])
        if name not in workload.optimizers:
            raise unknown_name("optimizer", name, dict.fromkeys(workload.optimizers, ""))
        recipe = dataclasses.replace(workload.recipe, optimizer=workload.optimizers[name])
        workload = dataclasses.replace(workload, recipe=recipe)
    return workload


def _optimizer_name(workload: Workload) -> str | None:
    """Return the recipe's optimizer among those offered; None where it is none of them."""
    kind = workload.recipe.optimizer.name
    return next((name for name, value in workload.optimizers.items() if value.name == kind), None)


def _values_of(part: object) -> Mapping[str, object]:
    """Return the values of a recipe's part by name."""
    if isinstance(part, TorchOptimizer):
        return part.arguments
    if not dataclasses.is_dataclass(part):
        return {}
    return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}


def _replaced(part: Any, changes: Mapping[str, Setting]) -> Any:
    if isinstance(part, TorchOptimizer):
        return dataclasses.replace(part, arguments={**part.arguments, **changes})
    return dataclasses.replace(part, **changes)


def _convert(name: str, value: Setting, default: Setting) -> Setting:
    wanted = type(default)
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        return value
    try:
        if wanted is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if isinstance(value, str) or (wanted is float and isinstance(value, int)):
            return wanted(value)
    except (KeyError, ValueError):
        pass
    raise RequestError(
        f"setting {name} is {value!r}, expected {_TYPE_NAMES[wanted]} (default {default})"
    )

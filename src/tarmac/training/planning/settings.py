"""Settings that ``--set`` changes in a workload, and the conversion of texts to their values."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from tarmac.errors import RequestError, unknown_name
from tarmac.training.plan import Setting
from tarmac.workloads import TorchOptimizer, Workload

_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}

# PyTorch's sizes are int64.
_MAX_WHOLE = 2**63 - 1

# Names of None, in a command line as in YAML.
_NONES = ("none", "null")

# Numbers of a recipe that are settings under their own names.
_NUMBERS = ("label_smoothing", "clip_norm", "clip_value")

# Parts of a recipe that have settings.
_PARTS = ("optimizer", "schedule", "preprocess", "augment", "test_views", "ema")

# These names have command-line options. A search has some of them as settings.
_OPTIONS = {
    "optimizer.learning_rate": "--lr",
    "learning_rate": "--lr",
    "batch_size": "--batch-size",
    "epochs": "--epochs",
    "seed": "--seed",
}

_SHORT_NAMES = {"lr": "learning_rate", "bs": "batch_size"}


def settings_of(workload: Workload) -> dict[str, Setting]:
    """Return every setting of a workload with its default.

    The settings are the model's keyword parameters, the dataset's name, and the values of the
    recipe's parts in dotted form, such as ``optimizer.rho``. If the workload offers several recipes
    or optimizers, the current one counts. A parameter with the default None is a setting only if
    its annotation gives its type.
    """
    settings: dict[str, Setting] = {}
    optional = optional_types(workload)
    for parameter in inspect.signature(workload.model).parameters.values():
        if parameter.default is None and parameter.name not in optional:
            continue
        if isinstance(parameter.default, Setting):
            settings[parameter.name] = parameter.default
    if isinstance(workload.dataset, str):
        settings["dataset"] = workload.dataset
    name = _optimizer_name(workload)
    if name is not None:
        settings["optimizer"] = name
    recipe = workload.recipe
    settings |= {number: getattr(recipe, number) for number in _NUMBERS}
    for part in _PARTS:
        for name, default in _values_of(getattr(recipe, part)).items():
            if default is None or f"{part}.{name}" in _OPTIONS:
                continue
            if isinstance(default, Setting):
                settings[f"{part}.{name}"] = default
    return settings


def apply_settings(
    workload: Workload, changes: Mapping[str, Setting]
) -> tuple[Workload, dict[str, Setting]]:
    """Apply the changes of ``--set`` to a workload.

    Args:
        workload: Workload to change; the object itself stays unchanged.
        changes: Values, or texts of them, by the names of `settings_of`.

    Returns:
        The changed workload, and the keyword arguments for its model that differ from the model's
        defaults. A resumed run passes every setting, which gives the same result.

    Raises:
        RequestError: A name is unknown, or a value has another type than the default.
    """
    workload = _with_choices(workload, changes)
    defaults, optional = settings_of(workload), optional_types(workload)
    values: dict[str, Setting] = {}
    for name, value in changes.items():
        if name not in defaults:
            shown = {key: f"default {show_setting(value)}" for key, value in defaults.items()}
            raise unknown_setting(workload, name, shown)
        try:
            values[name] = typed_setting(value, defaults[name], optional.get(name))
        except ValueError as error:
            raise RequestError(f"setting {name} is {error}") from error
    recipe = workload.recipe
    numbers: dict[str, Any] = {
        number: float(values[number])  # type: ignore[arg-type]  # these are never None
        for number in _NUMBERS
        if number in values
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
    """Apply the requested dataset with its recipe, and the requested optimizer."""
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
    """Return the name of the recipe's optimizer among those offered; None if it is not offered."""
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


def unknown_setting(workload: Workload, name: str, listed: Mapping[str, str]) -> RequestError:
    """Return the error for a setting that a workload does not have.

    Args:
        workload: Workload that lacks the setting.
        name: Name that was not recognised, as the user typed it.
        listed: The workload's settings, with a short description of each.
    """
    parameter = inspect.signature(workload.model).parameters.get(name)
    if parameter is None or parameter.default is parameter.empty:
        full = _SHORT_NAMES.get(name, name.replace("-", "_"))
        if full in _OPTIONS and full not in listed:
            return RequestError(
                f"{name} is no setting of {workload.name}",
                hint=f"It has an option of its own: {_OPTIONS[full]}",
            )
        meant = full if full in listed else None
        return unknown_name(f"setting of {workload.name}", name, listed, meant=meant)
    kind = "None" if parameter.default is None else f"a {type(parameter.default).__name__}"
    return RequestError(
        f"{name} of {workload.name} cannot be set: its default is {kind}, and its annotation "
        "names no type that a text can be read as",
        hint=f"Annotate it in the model's signature, such as: {name}: float | None = None",
    )


def show_setting(value: Setting) -> str:
    """Return a setting's value in the syntax of ``--set``."""
    return "none" if value is None else str(value)


def optional_types(workload: Workload) -> dict[str, type]:
    """Return the types of the model's parameters that may also be None, by their annotations.

    Examples are ``float | None``, ``Optional[int]``, ``Literal["relu", None]``, also within
    ``Annotated``.
    """
    try:
        signature = inspect.signature(workload.model, eval_str=True)
    # Evaluating a user's annotation may raise anything, e.g. for names imported only for type
    # checkers.
    except Exception:
        return {}
    kinds = {
        name: _optional_type(parameter.annotation)
        for name, parameter in signature.parameters.items()
    }
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _optional_type(hint: Any) -> type | None:
    kinds = _types_in(hint)
    if type(None) not in kinds:
        return None
    rest = kinds - {type(None)}
    rest = {float} if rest == {int, float} else rest
    (kind,) = rest if len(rest) == 1 else (None,)
    return kind if kind in _TYPE_NAMES else None


def _types_in(hint: Any) -> set[type]:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _types_in(inner[0])
    if origin is typing.Literal:
        return {type(value) for value in inner}
    if origin in (typing.Union, types.UnionType):
        return set().union(*map(_types_in, inner))
    return {hint}


def typed_setting(value: Setting, default: Setting, optional: type | None = None) -> Setting:
    """Convert a value or its text to the setting's type.

    Args:
        value: The value or its text; ``none`` names None.
        default: Default of the setting. The result has its type, unless ``optional`` names another.
        optional: Type of the setting if it may be None too; None if it may not.

    Raises:
        ValueError: The value has another type, is not finite, or exceeds int64. The message names
            the value and the expected type.
    """
    if optional is not None and (value is None or str(value).lower() in _NONES):
        return None
    if value is default:
        return value
    wanted = optional or type(default)
    typed = _converted(value, wanted)
    shown = f"default {show_setting(default)}"
    if typed is None:
        also = ", or none" if optional is not None else ""
        raise ValueError(f"{value!r}, expected {_TYPE_NAMES[wanted]}{also} ({shown})")
    if isinstance(typed, float) and not math.isfinite(typed) and typed != default:
        raise ValueError(f"{value}, expected a finite number ({shown})")
    if isinstance(typed, int) and not -_MAX_WHOLE - 1 <= typed <= _MAX_WHOLE:
        raise ValueError(f"{value}, expected an int64: at most {_MAX_WHOLE} ({shown})")
    return typed


def _converted(value: Setting, wanted: type) -> Setting:
    """Convert a value to a type; return None if that is not possible."""
    if wanted is bool:
        is_text = isinstance(value, bool | str)
        return {"true": True, "false": False}.get(str(value).lower()) if is_text else None
    if value is None or isinstance(value, bool):
        return None
    if wanted is str:
        return str(value)
    if wanted is int and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return int(value)
    try:
        number = value if isinstance(value, int) else float(value)
        # A float cannot represent large integers exactly, so texts of integers are parsed above.
        return float(number) if wanted is float else int(number) if number == int(number) else None
    except (ValueError, OverflowError):
        return None

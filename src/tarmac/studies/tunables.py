"""Build a search space from the requested parameters and a workload's settings."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping

from tarmac.studies.errors import FieldError
from tarmac.studies.notation import ParameterText, Range
from tarmac.studies.space import Choices, Numbers, Parameter, Space
from tarmac.training import Setting, optional_types, show_setting, typed_setting, unknown_setting
from tarmac.workloads import Workload

# Options of every training, besides the settings of its workload.
_OPTIONS = ("batch_size", "learning_rate")

_WORDS = {bool: "true or false", str: "a text"}

# Optuna stores the numbers of ranges as floats, which are exact up to here.
_MAX_EXACT = 2**53

# Sentinel: a setting may have any other value, None included.
_NOTHING = object()


def tunables_of(workload: Workload) -> dict[str, ParameterText]:
    """Return the parameters that a workload's model declares as searchable.

    The annotation of a keyword parameter declares it: ``Literal["relu", "tanh"]``, or
    ``Annotated[float, Range(0.0, 0.5)]``.
    """
    try:
        hints = typing.get_type_hints(workload.model, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
    tunables = {}
    for name in inspect.signature(workload.model).parameters:
        hint = hints.get(name)
        if typing.get_origin(hint) is typing.Literal:
            tunables[name] = ParameterText(choices=typing.get_args(hint))
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, Range):
                tunables[name] = ParameterText.model_validate(mark)
    return tunables


def make_space(
    texts: Mapping[str, ParameterText], workload: Workload, defaults: Mapping[str, Setting]
) -> tuple[Space, dict[str, Setting]]:
    """Check parameters against a workload's settings.

    Args:
        texts: Requested parameters; if all are fixed, the model's own are added.
        workload: Workload that will be trained.
        defaults: Settings of the workload, from `tarmac.training.settings_of`.

    Returns:
        The space, and the fixed settings.

    Raises:
        FieldError: A parameter is unknown, has another type than its setting, or cannot be
            searched over; or no parameter has several values.
    """
    recipe = workload.recipe
    valid = {
        "batch_size": recipe.batch_size,
        "learning_rate": float(recipe.optimizer.learning_rate),
        **defaults,
    }
    optional = optional_types(workload)
    listed = {name: f"default {show_setting(value)}" for name, value in defaults.items()}
    listed |= dict.fromkeys(_OPTIONS, "")
    if all(text.is_fixed for text in texts.values()):
        texts = {**tunables_of(workload), **texts}
    parameters: dict[str, Parameter] = {}
    fixed: dict[str, Setting] = {}
    for name, text in texts.items():
        if name not in valid:
            wrong = unknown_setting(workload, name, listed)
            raise FieldError(("space", name), wrong.message, hint=wrong.hint)
        if text.is_fixed:
            fixed[name] = _typed(name, text.fixed, valid[name], optional)
            continue
        if name == "dataset":
            raise FieldError(
                ("space", name),
                "dataset has several values, but accuracies on different data cannot be compared",
                hint="Search on one: --set dataset=NAME",
            )
        parameters[name] = _parameter(name, text, valid, optional)
    if not parameters:
        raise FieldError(
            ("space",),
            f"there is nothing to search over: no setting of {workload.name} has several values",
            hint="Name some: --set KEY=v1,v2 or KEY=lo..hi. Settings:\n"
            + "\n".join(f"  {name}  {text}".rstrip() for name, text in listed.items()),
        )
    try:
        return Space(parameters), fixed
    except ValueError as error:
        raise FieldError(("space",), str(error)) from error


def _parameter(
    name: str, text: ParameterText, valid: Mapping[str, Setting], optional: Mapping[str, type]
) -> Parameter:
    default = valid[name]
    when = {
        other: tuple(_typed(other, value, valid.get(other, value), optional) for value in wanted)
        for other, wanted in text.when.items()
    }
    if text.choices is not None:
        values = tuple(_typed(name, value, default, optional) for value in text.choices)
        twice = next((value for value in values if values.count(value) > 1), _NOTHING)
        if twice is not _NOTHING:
            raise FieldError(("space", name), f"{name} has {twice!r} twice")
        return Choices(values, when)
    assert text.low is not None
    assert text.high is not None
    kind = optional.get(name, type(default))
    if kind in (bool, str):
        raise FieldError(
            ("space", name),
            f"{name} has a range, but is {_WORDS[kind]} (default {show_setting(default)})",
            hint=f"Name its values: --set {name}=v1,v2",
        )
    whole = kind is int
    ends = (text.low, text.high, text.step or 0)
    if whole and not all(end == int(end) for end in ends):
        raise FieldError(
            ("space", name),
            f"{name} goes from {text.low:g} to {text.high:g}, expected whole numbers "
            f"(default {show_setting(default)})",
        )
    beyond = next((end for end in ends if abs(end) > _MAX_EXACT), None)
    if whole and beyond is not None:
        raise FieldError(
            ("space", name),
            f"{name} goes to {int(beyond)}, expected {_MAX_EXACT} at most: numbers of ranges are "
            "kept as floats, which are exact up to it",
        )
    return Numbers(text.low, text.high, text.step, text.log, whole, when)


def _typed(name: str, value: Setting, default: Setting, optional: Mapping[str, type]) -> Setting:
    """Return a value converted to the type of its setting."""
    try:
        return typed_setting(value, default, optional.get(name))
    except ValueError as error:
        raise FieldError(("space", name), f"{name} is {error}") from error

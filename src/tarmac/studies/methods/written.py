"""How people write parameters: in ``--set``, in YAML, in a model's signature; and their checks."""

from __future__ import annotations

import dataclasses
import inspect
import math
import typing
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, model_validator

from tarmac.errors import RequestError, unknown_name
from tarmac.studies.methods.space import Choices, Numbers, Parameter, Space

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.training import Setting
    from tarmac.workloads import Workload

__all__ = ["FieldError", "ParameterText", "Range", "make_space", "parse_set", "tunables_of"]

# What a training takes beside its workload's own settings.
_OPTIONS = {"batch_size": 1, "learning_rate": 1.0}

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class FieldError(RequestError):
    """A request's field cannot be what it is.

    Attributes:
        path: Of the field in a study's file.
    """

    def __init__(self, path: tuple[str, ...], message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path


@dataclasses.dataclass(frozen=True)
class Range:
    """Marks a model's keyword parameter as one to search over, and where.

    Example:
        ``def model(dropout: Annotated[float, Range(0.0, 0.5)] = 0.2)``

    Attributes:
        low: The least value.
        high: The greatest.
        step: From one value to the next; None for every value between.
        log: Whether to draw on a logarithmic scale.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False


class ParameterText(BaseModel):
    """A parameter as a study's file has it: a value, a list, ``16..128``, or a mapping.

    Attributes:
        choices: Named values; one alone fixes the setting.
        low: The least of a range.
        high: The greatest.
        step: From one to the next.
        log: Whether to draw on a logarithmic scale.
        when: The parameter is used only where each of these others has one of these values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    choices: tuple[bool | int | float | str, ...] | None = None
    low: float | None = None
    high: float | None = None
    step: float | None = None
    log: bool = False
    when: dict[str, tuple[bool | int | float | str, ...]] = {}

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        if isinstance(value, str) and ".." in value:
            return _read_range(value)
        if isinstance(value, (bool, int, float, str)):
            return {"choices": (value,)}
        if isinstance(value, (list, tuple)):
            return {"choices": tuple(value)}
        if isinstance(value, Range):
            return dataclasses.asdict(value)
        if isinstance(value, dict) and isinstance(value.get("when"), dict):
            when = {
                key: tuple(wanted) if isinstance(wanted, (list, tuple)) else (wanted,)
                for key, wanted in value["when"].items()
            }
            return {**value, "when": when}
        return value

    @model_validator(mode="after")
    def _check(self) -> ParameterText:
        if self.choices is None:
            _check_range(self)
            return self
        if (self.low, self.high, self.step, self.log) != (None, None, None, False):
            raise ValueError("has choices and a range, expected one of them")
        if not self.choices:
            raise ValueError("has no values, expected at least one")
        if any(value == "" for value in self.choices):
            raise ValueError("has an empty value")
        return self

    @property
    def fixed(self) -> Setting | None:
        """The one value that it has; None where there are several."""
        is_fixed = self.choices is not None and len(self.choices) == 1 and not self.when
        return self.choices[0] if is_fixed and self.choices else None


def _read_range(text: str) -> dict[str, Any]:
    ends, separator, how = text.partition(":")
    low, _, high = ends.partition("..")
    try:
        found: dict[str, Any] = {"low": float(low), "high": float(high)}
        if separator and how != "log":
            found["step"] = float(how)
    except ValueError:
        raise ValueError(
            f"{text!r} is no range, expected LOW..HIGH, LOW..HIGH:log or LOW..HIGH:STEP"
        ) from None
    return found | {"log": how == "log"}


def _check_range(text: ParameterText) -> None:
    low, high = text.low, text.high
    if low is None or high is None:
        raise ValueError("has neither choices nor low and high")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("goes to infinity, expected numbers")
    if low > high:
        raise ValueError(f"goes from {low:g} to {high:g}, expected the lower first")
    if text.log and low <= 0:
        raise ValueError(f"is logarithmic and begins at {low:g}, expected above 0")
    if text.log and text.step is not None:
        raise ValueError("is logarithmic and has a step, expected one of them")
    if text.step is not None and not 0 < text.step <= max(high - low, 1e-12):
        raise ValueError(f"has a step of {text.step:g}, expected above 0 and within the range")


def parse_set(text: str) -> tuple[str, Any]:
    """Read ``KEY=v1,v2``, ``KEY=lo..hi``, ``KEY=lo..hi:log``, ``KEY=lo..hi:step`` or ``KEY=value``.

    Raises:
        RequestError: It is of no such form, or names no value.
    """
    key, separator, values = text.partition("=")
    if not separator or not key:
        raise RequestError(f"--set {text!r} is not of the form KEY=VALUES")
    if not values:
        raise RequestError(
            f"{key} has no values, expected at least one", hint=f"Such as: --set {key}=1,2,4"
        )
    return key, values if ".." in values else values.split(",")


def tunables_of(workload: Workload) -> dict[str, ParameterText]:
    """Return what a workload's model declares as worth searching over.

    A keyword parameter is declared by its annotation: ``Literal["relu", "tanh"]``, or
    ``Annotated[float, Range(0.0, 0.5)]``.
    """
    try:
        hints = typing.get_type_hints(workload.model, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}
    found = {}
    for name in inspect.signature(workload.model).parameters:
        hint = hints.get(name)
        if typing.get_origin(hint) is typing.Literal:
            found[name] = ParameterText(choices=typing.get_args(hint))
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, Range):
                found[name] = ParameterText.model_validate(mark)
    return found


def make_space(
    texts: Mapping[str, ParameterText], workload: Workload, defaults: Mapping[str, Setting]
) -> tuple[Space, dict[str, Setting]]:
    """Check parameters against a workload's settings.

    Args:
        texts: Those asked for; where none is to be searched over, the workload's own are added.
        workload: What will be trained.
        defaults: Its settings, by `tarmac.training.settings_of`.

    Returns:
        The space, and the settings that have one value.

    Raises:
        FieldError: A parameter is unknown, of another type than its setting, or cannot be searched
            over; or none is left to search over.
    """
    valid = {**_OPTIONS, **defaults}
    listed = {name: f"default {value}" for name, value in defaults.items()}
    listed |= dict.fromkeys(_OPTIONS, "")
    if all(text.fixed is not None for text in texts.values()):
        texts = {**tunables_of(workload), **texts}
    found: dict[str, Parameter] = {}
    fixed: dict[str, Setting] = {}
    for name, text in texts.items():
        if name not in valid:
            wrong = unknown_name(f"setting of {workload.name}", name, listed)
            raise FieldError(("space", name), wrong.message, hint=wrong.hint)
        if text.fixed is not None:
            fixed[name] = _typed(name, text.fixed, valid[name])
            continue
        if name == "dataset":
            raise FieldError(
                ("space", name),
                "dataset has several values, and accuracies on different data do not compare",
                hint="Search on one: --set dataset=NAME",
            )
        found[name] = _parameter(name, text, valid)
    if not found:
        raise FieldError(
            ("space",),
            f"there is nothing to search over: no setting of {workload.name} has several values",
            hint="Name some: --set KEY=v1,v2 or KEY=lo..hi. Settings:\n"
            + "\n".join(f"  {name}  {text}".rstrip() for name, text in listed.items()),
        )
    try:
        return Space(found), fixed
    except ValueError as error:
        raise FieldError(("space",), str(error)) from error


def _parameter(name: str, text: ParameterText, valid: Mapping[str, Setting]) -> Parameter:
    default = valid[name]
    when = {
        other: tuple(_typed(other, value, valid.get(other, value)) for value in wanted)
        for other, wanted in text.when.items()
    }
    if text.choices is not None:
        values = tuple(_typed(name, value, default) for value in text.choices)
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise FieldError(("space", name), f"{name} has {twice!r} twice")
        return Choices(values, when)
    assert text.low is not None
    assert text.high is not None
    if isinstance(default, (bool, str)):
        raise FieldError(
            ("space", name),
            f"{name} has a range, but is {_WORDS[type(default)]} (default {default})",
            hint=f"Name its values: --set {name}=v1,v2",
        )
    whole = isinstance(default, int)
    ends = (text.low, text.high, text.step or 0.0)
    if whole and not all(float(end).is_integer() for end in ends):
        raise FieldError(
            ("space", name),
            f"{name} goes from {text.low:g} to {text.high:g}, expected whole numbers "
            f"(default {default})",
        )
    return Numbers(text.low, text.high, text.step, text.log, whole, when)


def _typed(name: str, value: Setting, default: Setting) -> Setting:
    """Return a value as its setting has it."""
    if type(value) is type(default):
        return value
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[str(value).lower()]
        if not isinstance(value, bool):
            if isinstance(default, str):
                return str(value)
            number = float(value)
            if isinstance(default, float):
                return number
            if number.is_integer():
                return int(number)
    except (KeyError, ValueError):
        pass
    raise FieldError(
        ("space", name),
        f"{name} is {value!r}, expected {_WORDS[type(default)]} (default {default})",
    )

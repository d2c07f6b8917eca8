"""The notation of search parameters: in ``--set``, in YAML and in a model's signature."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, model_validator

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from tarmac.studies.space import Parameter
    from tarmac.training import Setting


@dataclasses.dataclass(frozen=True)
class Range:
    """A mark on a model's keyword parameter: search over this range of values.

    Example:
        ``def model(dropout: Annotated[float, Range(0.0, 0.5)] = 0.2)``

    Attributes:
        low: Least value of the range, included.
        high: Greatest value of the range, included where ``step`` reaches it.
        step: Distance between two values; None for every value between.
        log: Whether to draw on a logarithmic scale.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False


class ParameterText(BaseModel):
    """A parameter as written in a study file: a value, a list, ``16..128``, or a mapping.

    Attributes:
        choices: Values to choose from; a single value fixes the setting.
        low: Least value of the range; None for choices.
        high: Greatest value of the range; None for choices.
        step: Distance between two values; None for every value between.
        log: Whether to draw on a logarithmic scale.
        when: Use the parameter only if each parameter named here has one of its listed values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    choices: tuple[bool | int | float | str | None, ...] | None = None
    low: int | float | None = None
    high: int | float | None = None
    step: int | float | None = None
    log: bool = False
    when: dict[str, tuple[bool | int | float | str | None, ...]] = {}

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        if isinstance(value, str) and ".." in value:
            return _read_range(value)
        if value is None or isinstance(value, (bool, int, float, str)):
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
    def is_fixed(self) -> bool:
        """Whether the parameter has a single value and no condition."""
        return self.choices is not None and len(self.choices) == 1 and not self.when

    @property
    def shortest(self) -> Any:
        """The shortest notation: a value, a list, a range such as ``16..128:16``, a mapping."""
        if self.when:
            return self.model_dump(mode="json", exclude_defaults=True)
        if self.choices is not None:
            return self.choices[0] if self.is_fixed else [*self.choices]
        how = "" if self.step is None else f":{self.step!r}"
        return f"{self.low!r}..{self.high!r}{':log' if self.log else how}"

    @property
    def fixed(self) -> Setting:
        """The single value, which may be None; also None for several values, see `is_fixed`."""
        return self.choices[0] if self.is_fixed and self.choices else None


def _read_range(text: str) -> dict[str, Any]:
    ends, separator, how = text.partition(":")
    low, _, high = ends.partition("..")
    expected = "is no range, expected LOW..HIGH, LOW..HIGH:log or LOW..HIGH:STEP"
    # In ``1...20`` the last dot may belong to ``.20``, so the text is ambiguous.
    if "..." in ends:
        raise ValueError(f"{expected}, with two dots")
    try:
        fields: dict[str, Any] = {"low": _number(low), "high": _number(high)}
        if separator and how != "log":
            fields["step"] = _number(how)
    except ValueError:
        raise ValueError(f"{expected}, such as 8..64") from None
    return fields | {"log": how == "log"}


def _number(text: str) -> int | float:
    """Read a number; an int keeps all its digits, a float only up to 2**53."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _check_range(text: ParameterText) -> None:
    low, high = text.low, text.high
    if low is None or high is None:
        raise ValueError("has neither choices nor low and high")
    for end in (low, high):
        if isinstance(end, float) and math.isnan(end):
            raise ValueError("has a bound that is not a number: nan")
        if not _is_finite(end):
            raise ValueError("goes to infinity, expected numbers")
    if low > high:
        raise ValueError(f"goes from {_shown(low)} to {_shown(high)}, expected the lower first")
    if not _is_finite(high - low):
        raise ValueError(f"goes from {_shown(low)} to {_shown(high)}, which is too wide to count")
    if text.log and low <= 0:
        raise ValueError(f"is logarithmic and begins at {_shown(low)}, expected above 0")
    if text.log and text.step is not None:
        raise ValueError("is logarithmic and has a step, expected one of them")
    if text.step is None:
        return
    if not 0 < text.step <= max(high - low, 1e-12):
        raise ValueError(
            f"has a step of {_shown(text.step)}, expected above 0 and within the range"
        )
    if not _is_finite((high - low) / text.step):
        raise ValueError(f"has a step of {_shown(text.step)}, which is too small to count")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _shown(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def text_of(parameter: Parameter) -> Any:
    """Return the shortest notation of a space's parameter for a study file."""
    fields = dataclasses.asdict(parameter)
    fields.pop("whole", None)
    if "values" in fields:
        fields["choices"] = fields.pop("values")
    return ParameterText(**fields).shortest


def parse_set(text: str) -> tuple[str, Any]:
    """Read ``KEY=v1,v2``, ``KEY=lo..hi``, ``KEY=lo..hi:log``, ``KEY=lo..hi:step`` or ``KEY=value``.

    Raises:
        RequestError: The text has another form, or names no value.
    """
    key, separator, values = text.partition("=")
    if not separator or not key:
        raise RequestError(f"--set {text!r} is not of the form KEY=VALUES")
    if not values:
        raise RequestError(
            f"{key} has no values, expected at least one", hint=f"For example: --set {key}=1,2,4"
        )
    # Accept a list as Python and YAML write it.
    if values.startswith("[") and values.endswith("]"):
        values = values[1:-1].replace(" ", "")
    return key, values if ".." in values else values.split(",")

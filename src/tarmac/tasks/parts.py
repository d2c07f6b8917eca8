"""Base classes of the parts of a job: unknown keys are refused, numbers become text."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_Value = TypeVar("_Value")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Part(BaseModel):
    """A part of a job, which refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _name(value: Any) -> Any:
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise ValueError("a name has letters, digits, '.', '_' and '-', at most 128")
    return value


Name = Annotated[str, BeforeValidator(_name)]


def by_variable(values: dict[str, _Value]) -> dict[str, _Value]:
    """Return values by environment variable.

    Raises:
        ValueError: A name is not a name for an environment variable.
    """
    for name in values:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for an environment variable")
    return values


def _scalar_text(value: Any) -> Any:
    """Convert numbers and booleans to the text that a program receives."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _without_zero_byte(value: str) -> str:
    if "\0" in value:
        raise ValueError("it has a zero byte, which cannot be passed to a program")
    return value


Line = Annotated[str, AfterValidator(_without_zero_byte)]
Text = Annotated[Line, BeforeValidator(_scalar_text, json_schema_input_type=bool | float | str)]

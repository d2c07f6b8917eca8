"""Amounts with units: ``4GiB``, ``512Mi``, ``500m``, ``2h30m``, ``12:00:00``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}
_UNITS |= {f"{letter}i": 2 ** (10 * n) for n, letter in enumerate("kmgtp", 1)}

_BYTES = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?i?)b?\s*", re.IGNORECASE)

_SECONDS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3}
_CLOCK = re.compile(r"(?:(\d+)\.)?(\d+):(\d{2}):(\d{2})(\.\d+)?")
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*(w|d|h|ms|m|s)\s*")


def parse_bytes(value: Any) -> int:
    """Return an amount of memory in bytes.

    Args:
        value: A number of bytes, or a text with a unit: ``4GB`` are powers of 1000, ``4GiB`` and
            Kubernetes's ``4Gi`` powers of 1024.

    Raises:
        ValueError: The value is no amount of memory of at least 1 byte.
    """
    amount = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        amount = value
    elif isinstance(value, str) and (match := _BYTES.fullmatch(value)):
        amount = float(match[1]) * _UNITS.get(match[2].lower(), -1)
    if not 1 <= amount < 2**63:
        raise ValueError("expected an amount of memory above 0, such as 4GiB")
    return int(amount)


def parse_cpus(value: Any) -> float:
    """Return a number of CPUs from a number, or from Kubernetes's thousandths such as ``500m``.

    Raises:
        ValueError: The value is not a number of CPUs above 0.
    """
    number = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)(m?)\s*", value)):
        number = float(match[1]) / (1000 if match[2] else 1)
    if not 0 < number < 2**20:
        raise ValueError("expected a number of CPUs above 0, such as 2, 0.5 or 500m")
    return number


def parse_seconds(value: Any) -> float:
    """Return a length of time in seconds.

    Args:
        value: Seconds as a number; ``90s``, ``2h30m`` or ``1d``; or hours, minutes and seconds as
            ``12:00:00``, with days as ``1.12:00:00``, the form of .NET and Azure.

    Raises:
        ValueError: The value is no length of time of at least 0.
    """
    seconds = -1.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        text = value.strip()
        clock = _CLOCK.fullmatch(text)
        parts = _PARTS.findall(text)
        if clock is not None:
            days, hours, minutes, rest = (int(part or 0) for part in clock.groups()[:4])
            seconds = days * 86400 + hours * 3600 + minutes * 60 + rest + float(clock[5] or 0)
        elif parts and _PARTS.sub("", text) == "":
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        elif re.fullmatch(r"\d+(\.\d+)?", text):
            seconds = float(text)
    if not 0 <= seconds < 2**40:
        raise ValueError("expected a length of time, such as 90s, 2h30m or 12:00:00")
    return seconds


def _no_truth_value(value: Any) -> Any:
    """Refuse true and false, which Python treats as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")  # noqa: TRY004 - pydantic's
    return value


Bytes = Annotated[int, BeforeValidator(parse_bytes, json_schema_input_type=float | str)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_no_truth_value)]
Cpus = Annotated[float, BeforeValidator(parse_cpus, json_schema_input_type=float | str)]
Number = Annotated[float, BeforeValidator(_no_truth_value)]
Seconds = Annotated[float, BeforeValidator(parse_seconds, json_schema_input_type=float | str)]
Whole = Annotated[int, BeforeValidator(_no_truth_value)]

"""Coercion of values to other types, as in HKube's validator (ajv 6 with ``coerceTypes``).

The validator converts a scalar if its text fits the expected type: ``"0x10"`` and true become
numbers, 5 becomes text. Each function returns the value in its type, or raises a ValueError with
the expected form.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from typing import Any

from pydantic import BeforeValidator

_NUMBER = re.compile(
    r"\s*(?:([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)|0(x[0-9a-f]+|o[0-7]+|b[01]+))?\s*",
    re.ASCII | re.IGNORECASE,
)
_BASES = {"x": 16, "o": 8, "b": 2}


def _text_of_number(number: float) -> str:
    """Return a number as text, as JavaScript's ``String`` writes it (ECMA-262, Number::toString).

    Example:
        >>> [_text_of_number(number) for number in (1.0, 0.1, 1e-7, 1e21)]
        ['1', '0.1', '1e-7', '1e+21']
    """
    try:
        value = float(number)
    except OverflowError:
        value = math.copysign(math.inf, number)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    shortest = decimal.Decimal(repr(value)).normalize()
    exponent = shortest.adjusted()
    if -7 < exponent < 21:
        return f"{shortest:f}"
    mantissa = shortest.scaleb(-exponent)
    return f"{mantissa:f}e{exponent:+d}"


def text_of_scalar(value: Any) -> str:
    """Return a scalar as text, as JavaScript's ``String`` writes it; null becomes empty text.

    Raises:
        ValueError: The value is a list or a mapping.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _text_of_number(value)
    raise ValueError("expected a text")


def text_or_none(value: Any) -> str | None:
    """Return a text, or None for null."""
    return None if value is None else text_of_scalar(value)


def number(value: Any) -> float:
    """Return a finite number."""
    result = math.nan
    if value is None or isinstance(value, bool):
        result = float(value or 0)
    elif isinstance(value, (int, float)):
        result = value
    elif isinstance(value, str) and value and (match := _NUMBER.fullmatch(value)):
        result = _whole_of(match[2]) if match[2] else float(match[1] or 0)
    try:
        result = float(result)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise ValueError("expected a number")
    return result


def _whole_of(digits: str) -> float:
    """Return the number for the text after the 0 of ``0x1f``, ``0o17`` or ``0b1``."""
    try:
        return float(int(digits[1:], _BASES[digits[0].lower()]))
    except OverflowError:
        return math.inf


def amount(value: Any) -> float:
    """Return a number of at least 0."""
    try:
        result = number(value)
    except ValueError:
        result = -1.0
    if result < 0:
        raise ValueError("expected a number of at least 0")
    return result


def amount_or_none(value: Any) -> float | None:
    """Return a number of at least 0, or None for null or empty text."""
    return None if value is None or value == "" else amount(value)


def cores(value: Any) -> float:
    """Return a number of CPU cores."""
    try:
        return amount(value)
    except ValueError as error:
        raise ValueError(f"{error} (HKube takes cores, not thousandths)") from error


def count(value: Any) -> int:
    """Return a whole number of at least 0."""
    try:
        result = amount(value)
    except ValueError:
        result = math.nan
    if not result.is_integer():
        raise ValueError("expected a whole number of at least 0")
    return int(result)


def count_or_none(value: Any) -> int | None:
    """Return a whole number of at least 0, or None for null or empty text."""
    return None if value is None or value == "" else count(value)


def whole(least: int | None = None, most: int | None = None) -> BeforeValidator:
    """Return a validator for whole numbers within inclusive limits."""
    limits = "" if least is None else f" of at least {least}"
    if most is not None:
        limits = f" from {least} to {most}"

    def take(value: Any) -> int:
        try:
            result = number(value)
        except ValueError:
            result = math.nan
        is_within = (least is None or result >= least) and (most is None or result <= most)
        if not result.is_integer() or not is_within:
            raise ValueError(f"expected a whole number{limits}")
        return int(result)

    return BeforeValidator(take)


def whole_or_none(least: int) -> BeforeValidator:
    """Return a validator for whole numbers of at least ``least``; null and empty text are None."""
    take = whole(least).func

    def take_or_none(value: Any) -> Any:
        # 0 is a number here, not null as in `_is_nothing`.
        return None if value is None or value == "" else take(value)  # type: ignore[call-arg] # of a value alone

    return BeforeValidator(take_or_none)


def flag(value: Any) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    if value is None or value in ("false", 0):
        return False
    if value in ("true", 1):
        return True
    raise ValueError("expected true or false")


def mapping(value: Any) -> dict[str, Any]:
    """Return a mapping unchanged."""
    if not isinstance(value, dict):
        raise ValueError("expected a mapping")  # noqa: TRY004 - Pydantic wants it
    return value


def sequence(value: Any) -> list[Any]:
    """Return a list unchanged."""
    if not isinstance(value, list):
        raise ValueError("expected a list")  # noqa: TRY004 - Pydantic wants it
    return value


def mapping_or_none(value: Any) -> dict[str, Any] | None:
    """Return a mapping unchanged, or None for null, empty text or 0."""
    return None if _is_nothing(value) else mapping(value)


def sequence_or_none(value: Any) -> list[Any] | None:
    """Return a list unchanged, or None for null, empty text or 0."""
    return None if _is_nothing(value) else sequence(value)


def _is_nothing(value: Any) -> bool:
    """Return whether the validator converts a value to null where null is valid."""
    return value is None or (isinstance(value, (str, int, float)) and value in ("", 0))


def different(value: list[Any] | None) -> list[Any] | None:
    """Return a list unchanged; refuse a list with equal elements."""
    shown = [json.dumps(part, sort_keys=True) for part in value or ()]
    if len(set(shown)) < len(shown):
        raise ValueError("two of the list are the same")
    return value

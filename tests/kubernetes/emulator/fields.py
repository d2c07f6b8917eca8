"""How the server writes what is wrong with a field (apimachinery's ``util/validation/field``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .errors import Cause


def required(field: str, detail: str = "") -> Cause:
    return Cause(field, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    written = json.dumps(value, separators=(",", ":"))
    return Cause(field, "FieldValueInvalid", f"Invalid value: {written}: {detail}")


def invalid_whole(field: str, detail: str) -> Cause:
    """What is wrong with a field whose value is left out of the words."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {detail}")


def unsupported(field: str, value: str, supported: Sequence[str]) -> Cause:
    listed = ", ".join(json.dumps(it) for it in supported)
    message = f"Unsupported value: {json.dumps(value)}: supported values: {listed}"
    return Cause(field, "FieldValueNotSupported", message)


def duplicate(field: str, value: Any) -> Cause:
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {json.dumps(value)}")


def missing(field: str, value: str) -> Cause:
    return Cause(field, "FieldValueNotFound", f"Not found: {json.dumps(value)}")


def too_many(field: str, count: int, most: int) -> Cause:
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def too_long(field: str, most: int) -> Cause:
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")


def forbidden_change(field: str, detail: str) -> Cause:
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")

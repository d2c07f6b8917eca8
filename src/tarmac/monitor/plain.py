"""A snapshot as JSON and back, and its schema; docs/readings.md explains the keys.

The keys are the fields of `Snapshot` and its parts, so numbers carry their unit in the key. Times
are ISO 8601 in UTC. Unknown values and floats that are not finite are null.

Example:
    >>> from_json(to_json(snapshot)) == snapshot
    True
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import re
import types
import typing
from datetime import UTC, datetime
from typing import Any

from tarmac.errors import TarmacError
from tarmac.monitor import snapshot as values
from tarmac.monitor.snapshot import SCHEMA_VERSION, Snapshot

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# The section of a docstring about fields, and the beginning of each entry in it.
_ATTRIBUTES = re.compile(r"\n\s*Attributes:\n")
_ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)

_SIMPLE: dict[Any, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    object: {},
    datetime: {"type": "string", "format": "date-time"},
    types.NoneType: {"type": "null"},
}


class RecordingError(TarmacError):
    """The error for a value that cannot be read as a snapshot."""


class NewerVersionError(RecordingError):
    """The error for a snapshot of a newer Tarmac."""


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as a value for `json.dumps`."""
    plain = _plain(snapshot)
    assert isinstance(plain, dict)
    return plain


def to_line(snapshot: Snapshot) -> str:
    """Return a snapshot as one line of JSON, without a line break."""
    return json.dumps(to_json(snapshot), separators=(",", ":"), allow_nan=False)


def from_json(value: object) -> Snapshot:
    """Read a snapshot from a value of `to_json`; unknown keys are ignored.

    Raises:
        RecordingError: The value is not a snapshot, or has a newer version.
    """
    if not isinstance(value, dict) or not isinstance(value.get("schema_version"), int):
        raise RecordingError(
            "this is not a snapshot of tarmac top --json: it has no schema_version"
        )
    version = value["schema_version"]
    if version > SCHEMA_VERSION:
        raise NewerVersionError(
            f"the snapshot has schema_version {version}, and this Tarmac reads up to "
            f"{SCHEMA_VERSION}",
            hint="Upgrade Tarmac here, or watch there.",
        )
    snapshot = _read(Snapshot, value, "")
    assert isinstance(snapshot, Snapshot)
    return snapshot


def render_schema() -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of a snapshot.

    The description of each key is its entry in the docstring of its class.
    """
    definitions: dict[str, Any] = {}
    root = _schema_of(Snapshot, definitions)
    name = root["$ref"].rpartition("/")[2]
    body = definitions.pop(name)
    return {
        "$schema": _DIALECT,
        "title": "Output of tarmac top --json",
        **body,
        "$defs": dict(sorted(definitions.items())),
    }


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(inner) for inner in value]
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in _names(value.__class__)}
    return value


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields, also types that only type checkers import."""
    from tarmac import machine  # noqa: PLC0415 - only to read JSON and for the schema

    known = {
        **vars(values),
        "datetime": datetime,
        "LiveGpu": machine.LiveGpu,
        "LiveHost": machine.LiveHost,
    }
    return typing.get_type_hints(kind, localns=known)


def _read(kind: Any, value: object, place: str) -> object:
    """Read a value of a type; an error names the place of the value."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and types.NoneType in inner:
            return None
        kind = next(item for item in inner if item is not types.NoneType)
        return _read(kind, value, place)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(inner[0], item, f"{place}[{i}]") for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return {str(key): _read(inner[1], item, f"{place}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _read_fields(kind, value, place)
    return _read_simple(kind, value, place)


def _read_simple(kind: Any, value: object, place: str) -> object:
    if kind is datetime and isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        except (ValueError, OverflowError):
            raise _wrong(place, value) from None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is float and is_number:
        try:
            return float(value)  # type: ignore[arg-type]
        except OverflowError:
            raise _wrong(place, value) from None
    is_right = kind is object or (kind in (bool, int, str) and isinstance(value, kind))
    if not is_right or (kind is int and not is_number):
        raise _wrong(place, value)
    return value


def _read_fields(kind: type, value: dict[str, Any], place: str) -> object:
    hints = _hints(kind)
    arguments = {
        name: _read(hints[name], value[name], f"{place}.{name}".lstrip("."))
        for name in _names(kind)
        if name in value
    }
    try:
        return kind(**arguments)
    except TypeError:
        missing = [
            field.name
            for field in dataclasses.fields(kind)
            if field.name not in arguments
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ]
        where = place or "the snapshot"
        raise RecordingError(f"{where} lacks {', '.join(missing)}") from None


def _wrong(place: str, value: object) -> RecordingError:
    shown = repr(value)
    shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
    return RecordingError(f"{place or 'the snapshot'} cannot be {shown}")


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema_of(member, definitions) for member in inner]}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(inner[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(inner[1], definitions)}
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}
        definitions[name].update(_schema_of_fields(kind, definitions))
    return {"$ref": f"#/$defs/{name}"}


def _schema_of_fields(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a dataclass. All keys are required."""
    summary, *rest = _ATTRIBUTES.split(inspect.getdoc(kind) or "", maxsplit=1)
    _, *words = _ATTRIBUTE.split(rest[0]) if rest else ("",)
    descriptions = dict(zip(words[::2], words[1::2], strict=True))
    properties = {}
    for name, hint in _hints(kind).items():
        properties[name] = _schema_of(hint, definitions)
        if name in descriptions:
            properties[name]["description"] = " ".join(descriptions[name].split())
    return {
        "description": " ".join(summary.split()),
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }

"""Fields that the API has: by the schemas of the newest versions that kubernetes-validate brings.

The schemas are read as they are, and the words are those of the real server's strict decoder.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubernetes_validate.utils import all_versions, schema_contents

from .errors import ApiError
from .jobsets import fields
from .kinds import JOBSET, Kind
from .quantities import PATTERN

# How many of the newest versions an object must be right for.
_VERSIONS = 3
_GO_NAMES = {str: "string", bool: "bool", dict: "object", list: "array", int: "number"}
_TYPES = {"string": str, "boolean": bool, "object": dict, "array": list}
_QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class _Wrong(NamedTuple):
    """What is wrong with a field."""

    words: str
    is_unknown: bool


@functools.cache
def newest_versions() -> tuple[str, ...]:
    """Return the versions, the newest first."""
    return tuple(reversed(all_versions()[-_VERSIONS:]))


def check_fields(kind: Kind, thing: Mapping[str, Any], *, strict: bool) -> None:
    """Refuse an object with a field of another type or, if strict, that a version does not know.

    Raises:
        ApiError: 400.
    """
    for version in newest_versions():
        found = _look(thing, _root(version, kind), _definitions(version), "", kind.name)
        wrong = [it for it in found if strict or not it.is_unknown]
        if not wrong:
            continue
        told = f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: '
        for each in wrong:
            if not each.is_unknown:
                raise ApiError(400, told + each.words)
        unknown = ", ".join(each.words for each in wrong)
        raise ApiError(400, f"{told}strict decoding error: {unknown}")


@functools.cache
def _definitions(version: str) -> Mapping[str, Any]:
    file = f"kubernetes-json-schema/v{version}-local-strict/_definitions.json"
    found: Mapping[str, Any] = schema_contents(file, version)["$defs"]
    return found


def _root(version: str, kind: Kind) -> Mapping[str, Any]:
    if kind is JOBSET:
        return fields(_ref(version, "v1.ObjectMeta"), _ref(version, "v1.JobTemplateSpec"))
    group = kind.group.partition(".")[0] or "core"
    named = f".{group}.{kind.version}.{kind.name}"
    definitions = _definitions(version)
    found: Mapping[str, Any] = next(
        schema for name, schema in definitions.items() if name.endswith(named)
    )
    return found


def _ref(version: str, end: str) -> Mapping[str, Any]:
    (name,) = [name for name in _definitions(version) if name.endswith(f".{end}")]
    return {"$ref": f"#/$defs/{name}"}


def _look(
    value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any], path: str, struct: str
) -> Iterator[_Wrong]:
    name = schema.get("$ref", "").rpartition("/")[2].rpartition(".")[2]
    outer = struct
    if name:
        schema, struct = definitions[schema["$ref"].rpartition("/")[2]], name
    if value is None:
        return
    if name == "Quantity" and not PATTERN.match(str(value)):
        yield _Wrong(_QUANTITY, is_unknown=False)
        return
    types = schema.get("type", [])
    wanted = next((it for it in types if it != "null"), "") if isinstance(types, list) else types
    if not _is_of(value, wanted):
        whole = f"v1.{name}" if name and wanted == "object" else ""
        within = outer if whole else struct
        yield _Wrong(_type_words(value, whole or wanted, schema, path, within), is_unknown=False)
        return
    if isinstance(value, dict):
        fields = schema.get("properties")
        more = schema.get("additionalProperties")
        for key, inner in value.items():
            place = f"{path}.{key}" if path else key
            if fields is not None and key in fields:
                yield from _look(inner, fields[key], definitions, place, struct)
            elif isinstance(more, Mapping):
                yield from _look(inner, more, definitions, place, struct)
            elif fields is not None and more is False:
                yield _Wrong(f'unknown field "{place}"', is_unknown=True)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        for number, inner in enumerate(value):
            yield from _look(inner, schema["items"], definitions, f"{path}[{number}]", struct)


def _is_of(value: Any, wanted: str) -> bool:
    if wanted == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if wanted == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return wanted not in _TYPES or isinstance(value, _TYPES[wanted])


def _type_words(value: Any, wanted: str, schema: Mapping[str, Any], path: str, struct: str) -> str:
    go = {"integer": schema.get("format", "int32"), "boolean": "bool"}.get(wanted, wanted)
    if wanted == "array":
        items = schema["items"]
        named = items.get("$ref", "").rpartition("/")[2].rpartition(".")[2]
        go = f"[]v1.{named}" if named else "[]string"
    given = _GO_NAMES.get(type(value), "number")
    # The decoder names fields without the numbers of a list's items.
    path = re.sub(r"\[\d+\]", "", path)
    return f"json: cannot unmarshal {given} into Go struct field {struct}.{path} of type {go}"

"""Writes the fields of a pod that Tarmac knows, from Kubernetes' own schema: run as a script.

A field is ``text``, ``number``, ``integer``, ``switch``, ``quantity`` (a number or a text), a name
of another line, ``{TYPE}`` for a mapping, ``[TYPE]`` for a list, and ``[TYPE by KEY]`` for a list
whose items kubectl merges by a field of theirs (``x-kubernetes-patch-merge-key``).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate

VERSION = "1.37.0"
FILE = Path(__file__).parents[2] / "src/tarmac/kubernetes/pod_fields.json"

_SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
_PLAIN = {"string": "text", "integer": "integer", "number": "number", "boolean": "switch"}
_ROOT = "io.k8s.api.core.v1.PodTemplateSpec"


def render() -> str:
    """Return the file's text: a line for each kind of object."""
    path = _SCHEMAS / f"v{VERSION}-local-strict" / "_definitions.json"
    definitions = json.loads(path.read_text(encoding="utf-8"))["$defs"]
    kinds: dict[str, dict[str, str]] = {}
    ahead = [_ROOT]
    while ahead:
        name = ahead.pop()
        if _short(name) in kinds or "properties" not in definitions[name]:
            continue
        fields = definitions[name]["properties"]
        kinds[_short(name)] = {key: _type(fields[key], definitions) for key in sorted(fields)}
        ahead += re.findall(r'\$defs/([\w.-]+)"', json.dumps(fields))
    lines = [f"{json.dumps(name)}: {json.dumps(kinds[name])}" for name in sorted(kinds)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _type(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        if "properties" in definitions[name]:
            return _short(name)
        # Times are texts; quantities, and ports by number or name, are either.
        return "text" if definitions[name].get("format") == "date-time" else "quantity"
    kind = field.get("type")
    kind = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
    if kind == "array":
        item = _type(field["items"], definitions)
        key = field.get("x-kubernetes-patch-merge-key")
        return f"[{item} by {key}]" if key else f"[{item}]"
    if kind == "object":
        return (
            "{" + _type(field.get("additionalProperties") or {"type": "string"}, definitions) + "}"
        )
    return _PLAIN[kind]


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")

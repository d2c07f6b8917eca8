"""The three ways to patch an object: merge, strategic merge and JSON patch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .errors import ApiError

# By which keys lists are merged, from the patchMergeKey tags of k8s.io/api. Lists of other fields
# are replaced.
_MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ownerReferences": "uid",
    "tolerations": None,
    "taints": None,
    "addresses": "type",
    "imagePullSecrets": "name",
}
# Lists of plain values that are merged as sets (patchStrategy: merge without a key).
_SETS = {"finalizers"}


def patched(thing: Mapping[str, Any], patch: Any, content_type: str) -> Any:
    """Return an object as a patch leaves it."""
    if content_type == "application/merge-patch+json":
        return merge(thing, patch)
    if content_type in ("application/strategic-merge-patch+json", "application/apply-patch+yaml"):
        return _strategic(thing, patch)
    if content_type == "application/json-patch+json":
        return _json_patch(thing, patch)
    accepted = "application/json-patch+json, application/merge-patch+json"
    raise ApiError(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        f"{accepted}, application/apply-patch+yaml",
    )


def merge(at: Any, patch: Any) -> Any:
    """Return JSON as a merge patch leaves it (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(at) if isinstance(at, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _strategic(at: Any, patch: Any, field: str = "") -> Any:  # noqa: PLR0912
    if isinstance(patch, Mapping):
        if patch.get("$patch") == "replace":
            return {key: value for key, value in patch.items() if key != "$patch"}
        result = dict(at) if isinstance(at, Mapping) else {}
        removed = {
            key.partition("/")[2]: value
            for key, value in patch.items()
            if key.startswith("$deleteFromPrimitiveList/")
        }
        for name, values in removed.items():
            result[name] = [it for it in result.get(name) or [] if it not in values]
        for key, value in patch.items():
            if key.startswith("$"):
                continue
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _strategic(result.get(key), value, key)
        return result
    if not isinstance(patch, list) or not isinstance(at, list):
        return copy.deepcopy(patch)
    if field in _SETS:
        return at + [value for value in patch if value not in at]
    name = _MERGE_KEYS.get(field)
    if name is None:
        return copy.deepcopy(patch)
    merged = {item[name]: item for item in at}
    for item in patch:
        if item.get("$patch") == "delete":
            merged.pop(item[name], None)
        else:
            merged[item[name]] = _strategic(merged.get(item[name]), item)
    return list(merged.values())


def _json_patch(thing: Any, patch: Any) -> Any:
    result = copy.deepcopy(thing)
    for step in patch:
        *path, last = (
            part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]
        )
        at: Any = result
        try:
            for part in path:
                at = at[int(part)] if isinstance(at, list) else at[part]
            _step(at, last, step)
        except (KeyError, IndexError, ValueError) as error:
            raise ApiError(
                422, f"the server rejected our request due to an error in our request: {error}"
            ) from None
    return result


def _step(at: Any, last: str, step: Mapping[str, Any]) -> None:
    operation = step["op"]
    key: Any = last
    if isinstance(at, list):
        key = len(at) if last == "-" else int(last)
    if operation == "test":
        if at[key] != step["value"]:
            raise ValueError(f"testing path {step['path']} failed")
    elif operation == "remove":
        del at[key]
    elif operation == "add" and isinstance(at, list):
        at.insert(key, step["value"])
    elif operation in ("add", "replace"):
        at[key] = step["value"]
    else:
        raise ValueError(f"unsupported operation {operation}")

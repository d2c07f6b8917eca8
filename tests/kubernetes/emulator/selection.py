"""Label and field selectors, as list and watch take them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .errors import ApiError

Selects = Callable[[Mapping[str, Any]], bool]

_PART = re.compile(r"[^,()]*(?:\([^)]*\))?[^,()]*")
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<how>in|notin)\s*\((?P<values>[^)]*)\)$")

# Of the fields of pods, those that the real server selects by (pkg/apis/core/v1/conversion.go); of
# events and others likewise. Any other is refused.
_FIELDS = {
    "pods": {
        "metadata.name",
        "metadata.namespace",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "spec.hostNetwork",
    },
    "events": {
        "metadata.name",
        "metadata.namespace",
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "reason",
        "source",
        "type",
    },
    "jobs": {"metadata.name", "metadata.namespace", "status.successful"},
    "nodes": {"metadata.name", "spec.unschedulable"},
    "secrets": {"metadata.name", "metadata.namespace", "type"},
}
_USUAL = {"metadata.name", "metadata.namespace"}


def selector(labels: str, fields: str, plural: str) -> Selects | None:
    """Return what says whether an object is selected; None where all are."""
    parts = [*map(_label, _split(labels)), *(_field(text, plural) for text in _split(fields))]
    return (lambda thing: all(part(thing) for part in parts)) if parts else None


def matches_labels(wanted: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether labels are those of a ``matchLabels`` selector."""
    return all(labels.get(key) == value for key, value in (wanted or {}).items())


def _split(text: str) -> list[str]:
    return [part.strip() for part in _PART.findall(text) if part.strip()]


def _labels(thing: Mapping[str, Any]) -> Mapping[str, str]:
    return thing["metadata"].get("labels") or {}


def _label(text: str) -> Selects:
    if found := _SET.match(text):
        key, how = found["key"], found["how"]
        values = {value.strip() for value in found["values"].split(",")}
        if how == "in":
            return lambda thing: _labels(thing).get(key) in values
        return lambda thing: _labels(thing).get(key) not in values
    for sign in ("!=", "==", "="):
        if sign in text:
            key, value = (side.strip() for side in text.split(sign, 1))
            if sign == "!=":
                return lambda thing: _labels(thing).get(key) != value
            return lambda thing: _labels(thing).get(key) == value
    if text.startswith("!"):
        return lambda thing: text[1:].strip() not in _labels(thing)
    if not re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_./]*", text):
        raise ApiError(400, f"unable to parse requirement: found '{text}', expected: identifier")
    return lambda thing: text in _labels(thing)


def _field(text: str, plural: str) -> Selects:
    sign = next((sign for sign in ("!=", "==", "=") if sign in text), None)
    if sign is None:
        raise ApiError(400, f"invalid selector: '{text}'; can't understand '{text}'")
    name, value = (side.strip() for side in text.split(sign, 1))
    if name not in _FIELDS.get(plural, _USUAL):
        raise ApiError(400, f"field label not supported: {name}")
    path = name.split(".")

    def get(thing: Mapping[str, Any]) -> str:
        at: Any = thing
        for part in path:
            at = at.get(part) if isinstance(at, Mapping) else None
        return "" if at is None else str(at).lower() if isinstance(at, bool) else str(at)

    if sign == "!=":
        return lambda thing: get(thing) != value
    return lambda thing: get(thing) == value

"""Names, labels and annotations (apimachinery's ``util/validation``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import Cause
from .fields import invalid_value, required, too_long
from .kinds import Kind

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_KEY_WORDS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
DATA_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
# Of all annotations of one object together (ValidateAnnotationsSize).
_ANNOTATIONS_BYTES = 256 * 1024
# Whose names become host names.
_NAMED_BY_LABEL = ("services", "namespaces")


def label_problem(text: str) -> str | None:
    """Return what is wrong with a name that is to be a DNS label."""
    if len(text) > 63:
        return "must be no more than 63 bytes"
    return None if _LABEL.fullmatch(text) else _LABEL_WORDS


def subdomain_problem(text: str) -> str | None:
    """Return what is wrong with the name of an object."""
    if len(text) > 253:
        return "must be no more than 253 bytes"
    return None if _SUBDOMAIN.fullmatch(text) else _SUBDOMAIN_WORDS


def check_metadata(kind: Kind, metadata: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with the name, the labels and the annotations of an object."""
    name = metadata.get("name") or ""
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif kind.group != "rbac.authorization.k8s.io":
        check = label_problem if kind.plural in _NAMED_BY_LABEL else subdomain_problem
        if problem := check(name):
            yield invalid_value("metadata.name", name, problem)
    yield from check_labels(metadata, "metadata")


def check_labels(metadata: Mapping[str, Any], place: str, named: str = "labels") -> Iterator[Cause]:
    """Yield what is wrong with labels and annotations; `named` is what the labels' field is."""
    for part, field in (("labels", named), ("annotations", "annotations")):
        for key in metadata.get(part) or {}:
            if problem := _key_problem(key):
                yield invalid_value(f"{place}.{field}", key, problem)
    for value in (metadata.get("labels") or {}).values():
        if len(value) > 63:
            yield invalid_value(f"{place}.{named}", value, "must be no more than 63 bytes")
        elif not _VALUE.fullmatch(value):
            yield invalid_value(f"{place}.{named}", value, _VALUE_WORDS)
    annotations = metadata.get("annotations") or {}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_BYTES:
        yield too_long(f"{place}.annotations", _ANNOTATIONS_BYTES)


def _key_problem(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or subdomain_problem(prefix)):
        return f"prefix part {_SUBDOMAIN_WORDS}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return None if _NAME_PART.fullmatch(name) else _KEY_WORDS

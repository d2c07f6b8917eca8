"""Bodies of requests: JSON or YAML, with the fields that the API knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from .errors import ApiError
from .kinds import Kind
from .schemas import check_fields


def decoded(body: bytes, content_type: str) -> Any:
    """Return what a body says.

    Raises:
        ApiError: It says nothing.
    """
    if "protobuf" in content_type or "cbor" in content_type:
        # Clients of the real server may send it; this one says that it has JSON and YAML alone.
        raise ApiError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml",
        )
    try:
        return yaml.safe_load(body) if "yaml" in content_type else json.loads(body)
    except (ValueError, yaml.YAMLError) as error:
        raise ApiError(
            400, f"the object provided is unrecognized (must be of type Object): {error}"
        ) from None


def check_kind(kind: Kind, thing: Any, strict: bool) -> Mapping[str, Any]:
    """Refuse an object that is of another kind than its path, or has fields that nobody knows.

    Fields that nobody knows are let be where `strict` is not asked for.

    Raises:
        ApiError: 400.
    """
    if not isinstance(thing, dict):
        raise ApiError(400, "the object provided is unrecognized (must be of type Object)")
    if (thing.get("apiVersion"), thing.get("kind")) != (kind.api_version, kind.name):
        given = f"the object provided is of {thing.get('apiVersion')}, Kind={thing.get('kind')}"
        raise ApiError(
            400,
            f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: {given}',
        )
    check_fields(kind, thing, strict=strict)
    return thing

"""What is asked of pods beside their objects: logs, evictions; and reviews of access."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from .access import Access
from .errors import ApiError
from .kinds import NODE, POD
from .objects import Objects
from .store import Thing, now

_LOG_OPTIONS = ("follow", "sinceTime", "sinceSeconds", "limitBytes", "tailLines", "timestamps")
_LOG_OPTIONS += ("previous",)


def log_location(
    objects: Objects, pod: Thing, query: Mapping[str, str]
) -> tuple[str, int, str] | None:
    """Return host, port and path at which a pod's kubelet has a container's log.

    None where the pod is on no node yet. From ``pkg/registry/core/pod/strategy.go``.

    Raises:
        ApiError: There is no such container, or no node.
    """
    metadata, spec = pod["metadata"], pod["spec"]
    names = [it["name"] for it in spec["containers"]]
    before = [it["name"] for it in spec.get("initContainers") or ()]
    container = query.get("container", "")
    if not container:
        if len(names) > 1 or before:
            told = f"choose one of: [{' '.join(names)}]"
            if before:
                told += f" or one of the init containers: [{' '.join(before)}]"
            raise ApiError(
                400, f"a container name must be specified for pod {metadata['name']}, {told}"
            )
        container = names[0]
    elif container not in names + before:
        raise ApiError(400, f"container {container} is not valid for pod {metadata['name']}")
    if not spec.get("nodeName"):
        return None
    node = objects.read(NODE, "", spec["nodeName"])
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    host = next(it["address"] for it in node["status"]["addresses"] if it["type"] == "InternalIP")
    options = {key: query[key] for key in _LOG_OPTIONS if key in query}
    path = f"/containerLogs/{metadata['namespace']}/{metadata['name']}/{container}"
    return host, port, path + ("?" + urllib.parse.urlencode(options) if options else "")


def evict(
    objects: Objects,
    namespace: str,
    name: str,
    eviction: Mapping[str, Any],
) -> Thing:
    """Evict a pod by the API: with a condition that says so, and with grace."""
    disrupt(
        objects,
        objects.read(POD, namespace, name),
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    options = eviction.get("deleteOptions") or {}
    objects.delete(POD, namespace, name, grace_s=options.get("gracePeriodSeconds"))
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def disrupt(objects: Objects, pod: Thing, reason: str, message: str) -> None:
    """Give a pod the condition that says why it is about to be ended."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
    }
    status = pod["status"]
    conditions = [it for it in status.get("conditions") or () if it["type"] != "DisruptionTarget"]
    objects.set_status(POD, pod, {**status, "conditions": [*conditions, condition]})


def review(access: Access, thing: Mapping[str, Any]) -> Thing:
    """Return whether the user may do what a SelfSubjectAccessReview asks for."""
    asked = (thing.get("spec") or {}).get("resourceAttributes") or {}
    resource = asked.get("resource", "")
    if asked.get("subresource"):
        resource += f"/{asked['subresource']}"
    allowed = access.may(access.user, asked.get("verb", ""), resource, asked.get("group", ""))
    return {**thing, "status": {"allowed": allowed}}

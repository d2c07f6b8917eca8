"""Events, as controllers and nodes tell them."""

from __future__ import annotations

import itertools
from typing import Any

from .kinds import EVENT
from .objects import Objects
from .store import Thing, now

_NUMBER = itertools.count(0x18_0000_0000_0000)


def tell(
    objects: Objects, about: Thing, reason: str, message: str, *, kind: str = "Warning", by: str
) -> None:
    """Store an event about an object, or count one more of it."""
    metadata = about["metadata"]
    namespace = metadata.get("namespace", "default")
    with objects.store.changed:
        earlier = objects.store.list(EVENT, namespace) if kind == "Warning" else []
        for event in earlier:
            there = event["involvedObject"]
            if (there["uid"], event["reason"], event["message"]) == (
                metadata["uid"],
                reason,
                message,
            ):
                again = {"count": event["count"] + 1, "lastTimestamp": now()}
                objects.store.put(EVENT, event | again)
                return
    event: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name']}.{next(_NUMBER):x}"},
        "involvedObject": {
            "apiVersion": about.get("apiVersion", "v1"),
            "kind": about.get("kind", "Pod"),
            "name": metadata["name"],
            "namespace": namespace,
            "uid": metadata["uid"],
        },
        "reason": reason,
        "message": message,
        "type": kind,
        "count": 1,
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "source": {"component": by},
    }
    objects.create(EVENT, namespace, event)

"""The pods of Jobs: what one is made of, and what it carries of its job."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping
from typing import Any

from .kinds import POD
from .objects import Objects
from .store import Thing

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def pod_of(job: Mapping[str, Any], index: int | None, failures: int) -> Thing:
    """Return a new pod of a job.

    Args:
        job: With its defaults.
        index: Which of its indexes; None where it has none.
        failures: How often that index has failed.
    """
    template = copy.deepcopy(job["spec"]["template"])
    metadata = job["metadata"]
    name = metadata["name"]
    given = template.get("metadata") or {}
    spec = template["spec"]
    labels, annotations = dict(given.get("labels") or {}), dict(given.get("annotations") or {})
    base = f"{name}-"
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        if job["spec"].get("backoffLimitPerIndex") is not None:
            annotations[FAILURES] = str(failures)
        spec.setdefault("hostname", f"{name}-{index}")
        base = f"{name}-{index}-"
        for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
            env = container.setdefault("env", [])
            if not any(it["name"] == "JOB_COMPLETION_INDEX" for it in env):
                field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
                env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": field}})
    suffix = "".join(secrets.choice(_ALPHABET) for _ in range(5))
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": base + suffix,
            "generateName": base,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "spec": spec,
    }


def controller_of(thing: Mapping[str, Any]) -> Thing | None:
    """Return the job that an object belongs to; None where there is none."""
    owners = thing["metadata"].get("ownerReferences") or ()
    return next((it for it in owners if it.get("controller") and it["kind"] == "Job"), None)


def index_of(pod: Mapping[str, Any]) -> int | None:
    """Return which index of its job a pod is; None where the job has none."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return None if text is None else int(text)


def failures_of(pod: Mapping[str, Any]) -> int:
    """Return how often its index had failed when a pod was made."""
    return int((pod["metadata"].get("annotations") or {}).get(FAILURES, 0))


def ended_at(pod: Mapping[str, Any]) -> str:
    """Return when the last of a pod's containers ended; empty where none has."""
    ends = [
        it["state"]["terminated"]["finishedAt"]
        for it in pod["status"].get("containerStatuses") or ()
        if "terminated" in it["state"] and it["state"]["terminated"].get("finishedAt")
    ]
    return max(ends, default="")


def release(objects: Objects, pod: Thing) -> None:
    """Let a counted pod go."""
    metadata = pod["metadata"]
    there = objects.store.get(POD, metadata["namespace"], metadata["name"])
    if there is None or FINALIZER not in (there["metadata"].get("finalizers") or ()):
        return

    def without(old: Thing) -> Thing:
        old["metadata"]["finalizers"].remove(FINALIZER)
        return old

    objects.update(POD, metadata["namespace"], metadata["name"], without)

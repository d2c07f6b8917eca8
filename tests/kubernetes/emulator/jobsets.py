"""JobSet, as far as Tarmac asks for it: a Service, and a Job for each replica.

Fields, names and labels are those of jobset.x-k8s.io/v1alpha2, by the API's types and the
controller of kubernetes-sigs/jobset. Nothing restarts: a Job that fails is its set's failure.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .kinds import JOB, JOBSET, SERVICE
from .objects import Objects
from .store import Change, Thing, now

NAME = "jobset.sigs.k8s.io/jobset-name"
_ENDS = {"Complete": ("Completed", "AllJobsCompleted"), "Failed": ("Failed", "FailedJobs")}


def fields(metadata: Mapping[str, Any], job_template: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an object of the kind may have, as a JSON schema.

    Args:
        metadata: The schema of an object's.
        job_template: The schema of what Jobs are made by.
    """

    def record(**known: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"type": "object", "properties": known, "additionalProperties": False}

    text, switch, number = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
    replicated = record(name=text, groupName=text, replicas=number, template=job_template)
    spec = record(
        network=record(enableDNSHostnames=switch, subdomain=text, publishNotReadyAddresses=switch),
        successPolicy=record(operator=text),
        failurePolicy=record(maxRestarts=number, restartStrategy=text),
        suspend=switch,
        ttlSecondsAfterFinished=number,
        replicatedJobs={"type": "array", "items": replicated},
    )
    return record(apiVersion=text, kind=text, metadata=metadata, spec=spec)


class JobSetController:
    """Makes the Jobs of sets, suspends and resumes them, and says how they ended."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def concerns(self, change: Change) -> list[tuple[str, str]]:
        """Return the set that has changed, or whose Job has."""
        metadata = (change.after or change.before or {})["metadata"]
        if change.kind is JOBSET:
            return [(metadata["namespace"], metadata["name"])]
        name = (metadata.get("labels") or {}).get(NAME)
        return [(metadata["namespace"], name)] if change.kind is JOB and name else []

    def look(self, token: tuple[str, str]) -> float | None:
        """Bring a set's Jobs to what it says."""
        with self._objects.store.changed:
            whole = self._objects.store.get(JOBSET, *token)
            if whole is None or "deletionTimestamp" in whole["metadata"]:
                return None
            self._serve(whole)
            for replicated in whole["spec"]["replicatedJobs"]:
                for number in range(replicated["replicas"]):
                    self._see(whole, replicated, number)
        return None

    def _serve(self, whole: Thing) -> None:
        namespace, name = whole["metadata"]["namespace"], whole["metadata"]["name"]
        if self._objects.store.get(SERVICE, namespace, name) is None:
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "ownerReferences": [_owner(whole)]},
                "spec": {
                    "clusterIP": "None",
                    "publishNotReadyAddresses": True,
                    "selector": {NAME: name},
                },
            }
            self._objects.create(SERVICE, namespace, service)

    def _see(self, whole: Thing, replicated: Mapping[str, Any], number: int) -> None:
        namespace, name = whole["metadata"]["namespace"], whole["metadata"]["name"]
        is_suspended = whole["spec"].get("suspend", False)
        own = f"{name}-{replicated['name']}-{number}"
        job = self._objects.store.get(JOB, namespace, own)
        if job is None:
            self._objects.create(JOB, namespace, _job(whole, replicated["template"], own))
            return
        ends = {it["type"] for it in job.get("status", {}).get("conditions", ())}
        for end in ends & _ENDS.keys():
            kind, reason = _ENDS[end]
            condition = {"type": kind, "status": "True", "reason": reason}
            if not whole.get("status", {}).get("conditions"):
                status = {"conditions": [condition | {"lastTransitionTime": now()}]}
                self._objects.set_status(JOBSET, whole, status)
            return
        if job["spec"]["suspend"] != is_suspended:

            def change(job: Thing) -> Thing:
                job["spec"]["suspend"] = is_suspended
                return job

            self._objects.update(JOB, namespace, own, change)


def _job(whole: Thing, template: Mapping[str, Any], name: str) -> Thing:
    made: Thing = copy.deepcopy(dict(template))
    label = {NAME: whole["metadata"]["name"]}
    pods = made["spec"]["template"]
    for about in (made, pods):
        metadata = about.setdefault("metadata", {})
        metadata["labels"] = metadata.get("labels", {}) | label
    pods["spec"]["subdomain"] = whole["metadata"]["name"]
    made["metadata"] |= {"name": name, "ownerReferences": [_owner(whole)]}
    made["spec"]["suspend"] = whole["spec"].get("suspend", False)
    return {"apiVersion": "batch/v1", "kind": "Job", **made}


def _owner(whole: Thing) -> dict[str, Any]:
    return {
        "apiVersion": JOBSET.api_version,
        "kind": JOBSET.name,
        "name": whole["metadata"]["name"],
        "uid": whole["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }

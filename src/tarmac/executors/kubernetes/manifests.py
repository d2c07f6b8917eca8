"""Builds a chunk's objects for a cluster, without any request.

`task_pods` builds the pods of tasks.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.executors.kubernetes.demand import Demand
from tarmac.executors.kubernetes.overlay import (
    CHECK,
    CONTAINER,
    RUN_DIRECTORY,
    overlaid,
)
from tarmac.executors.kubernetes.task_pods import (
    GRACE_S,
    OF_JOB,
    REPLICATED_JOB,
    Manifest,
    Unit,
    pod_spec,
)

__all__ = [
    "BEGUN_AGAIN",
    "CHECK",
    "CONTAINER",
    "GRACE_S",
    "JOB_LABEL",
    "NONCE",
    "OF_JOBSET",
    "RUN",
    "RUN_DIRECTORY",
    "SWEPT_AFTER_S",
    "Manifest",
    "Unit",
    "config_manifest",
    "job_manifest",
    "secret_manifest",
    "service_manifest",
]

# Label that JobSet's controller sets on Jobs and their pods.
OF_JOBSET = "jobset.sigs.k8s.io/jobset-name"

# Labels of a run's objects, by which they are found, and the annotation for a Job's submission.
RUN = "tarmac.dev/run"
JOB_LABEL = "tarmac.dev/job"
NONCE = "tarmac.dev/nonce"

# Cleanup after a runner that never came back; a runner deletes Jobs whose end it has seen.
SWEPT_AFTER_S = 86_400

# A disruption is no failure, so Kubernetes replaces the pod.
BEGUN_AGAIN: Manifest = {
    "rules": [
        {
            "action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
    ]
}

_KUEUE = "kueue.x-k8s.io/queue-name"
_KUEUE_PRIORITY = "kueue.x-k8s.io/priority-class"


def job_manifest(
    unit: Unit,
    demand: Demand,
    *,
    most_at_once: int | None = None,
    excluded: Sequence[str] = (),
) -> Manifest:
    """Return a suspended Job with an index for each attempt, or a JobSet with that Job.

    The objects that its pods read are made later, and the Job owns them. So nothing is left behind
    where a runner dies between the two steps. The cluster itself replaces a disrupted pod. Any
    other failure is final, as retries are the runner's.

    The pods of one attempt on several nodes start and end together. The end of any pod ends the
    Job, and another attempt has another Job.

    Args:
        unit: Name, command and size of the Job.
        demand: CPUs, memory, GPUs and settings of each pod.
        most_at_once: Most pods at once; None for all.
        excluded: Names of nodes that the pods must avoid.
    """
    labels = {RUN: unit.run, JOB_LABEL: unit.label}
    queue = {_KUEUE: demand.queue} if demand.queue else {}
    if demand.queue and demand.queue_priority:
        queue[_KUEUE_PRIORITY] = demand.queue_priority
    spec: Manifest = {
        "completionMode": "Indexed",
        **(_together(unit) if unit.nodes > 1 else _one_by_one(unit, most_at_once)),
        "podReplacementPolicy": "Failed",
        "template": overlaid(
            {"metadata": {"labels": labels}, "spec": pod_spec(unit, demand, excluded)}, demand.pod
        ),
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2" if unit.is_set else "batch/v1",
        "kind": demand.kind,
        "metadata": {
            "name": unit.name,
            "labels": labels | queue,
            "annotations": {NONCE: unit.nonce},
        },
        "spec": {
            "suspend": True,
            "ttlSecondsAfterFinished": SWEPT_AFTER_S,
            **(_set_of(spec, labels) if unit.is_set else spec),
        },
    }


def _set_of(job: Manifest, labels: Mapping[str, str]) -> Manifest:
    """Return the specification of a JobSet with one Job and a Service."""
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "failurePolicy": {"maxRestarts": 0},
        "replicatedJobs": [
            {
                "name": REPLICATED_JOB,
                "replicas": 1,
                "template": {"metadata": {"labels": {**labels}}, "spec": job},
            }
        ],
    }


def _one_by_one(unit: Unit, most_at_once: int | None) -> Manifest:
    return {
        "completions": unit.size,
        "parallelism": min(unit.size, most_at_once or unit.size),
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": unit.size,
        "podFailurePolicy": BEGUN_AGAIN,
    }


def _together(unit: Unit) -> Manifest:
    return {"completions": unit.nodes, "parallelism": unit.nodes, "backoffLimit": 0}


def service_manifest(job: Mapping[str, Any]) -> Manifest:
    """Return the Service by which a Job's pods find each other, owned by the Job.

    A headless Service: it gives each pod a DNS name, even before the pod is ready.

    Args:
        job: Manifest of the Job, as the cluster returns it. A JobSet has a Service of its own.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _owned(job),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {OF_JOB: job["metadata"]["name"]},
        },
    }


def config_manifest(job: Mapping[str, Any], files: Mapping[str, bytes]) -> Manifest:
    """Return the ConfigMap that a Job's pods read, owned by the Job.

    Args:
        job: Manifest of the Job or JobSet, as the cluster returns it.
        files: Content of each file, by name.
    """
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _owned(job),
        "immutable": True,
        "binaryData": data,
    }


def secret_manifest(job: Mapping[str, Any], values: Mapping[str, bytes]) -> Manifest:
    """Return the Secret that a Job's pods read, owned by the Job.

    Args:
        job: Manifest of the Job or JobSet, as the cluster returns it.
        values: Secret values of environment variables, by variable name.
    """
    data = {name: base64.b64encode(value).decode() for name, value in values.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _owned(job),
        "type": "Opaque",
        "immutable": True,
        "data": data,
    }


def _owned(job: Mapping[str, Any]) -> Manifest:
    metadata = job["metadata"]
    return {
        "name": metadata["name"],
        "labels": {RUN: metadata["labels"][RUN]},
        "ownerReferences": [
            {
                "apiVersion": job["apiVersion"],
                "kind": job["kind"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "blockOwnerDeletion": True,
                "controller": True,
            }
        ],
    }

"""Kubernetes, by its API alone: a kubeconfig, requests, watches, and what its words mean.

Knows nothing of job files. What is no answer is a `Silence`, what is denied is `Refused`.

Example::

    with connect(namespace="team-a") as cluster, cluster.watch("Pod", "app=x") as pods:
        pods.wait_for_change(10)
        print(pods.look())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.kubernetes.answers import Listed, Object, Refused, Right, Silence, Version, in_form
    from tarmac.kubernetes.bounds import why_out_of_bounds
    from tarmac.kubernetes.cluster import Cluster, connect
    from tarmac.kubernetes.events import explain_creation, explain_event, explain_quota
    from tarmac.kubernetes.jobs import JOB_ENDS, JobState, explain_job
    from tarmac.kubernetes.kubeconfig import NoKubeconfigError
    from tarmac.kubernetes.look import Look
    from tarmac.kubernetes.manifests import (
        JOBSET_RIGHTS,
        RIGHTS,
        as_yaml,
        check_daemon_set,
        problem_detector_set,
        role_for,
        setup,
    )
    from tarmac.kubernetes.nodes import ClusterNode
    from tarmac.kubernetes.overlays import Fault, faults_of, merged
    from tarmac.kubernetes.pod_rows import DISRUPTIONS, ENDS, WAITS, Cause
    from tarmac.kubernetes.pod_security import (
        container_context,
        default_user,
        home_variables,
        pod_context,
    )
    from tarmac.kubernetes.pods import UNFIT, PodState, explain_pod
    from tarmac.kubernetes.quantities import is_gpu, quantity
    from tarmac.kubernetes.refusals import REFUSALS, Explained, explain_refusal, lacking_right
    from tarmac.kubernetes.survey import ClusterFindings, survey_cluster
    from tarmac.kubernetes.watch import Watch
    from tarmac.kubernetes.workloads import explain_workload, job_of_workload

__all__ = [
    "DISRUPTIONS",
    "ENDS",
    "JOBSET_RIGHTS",
    "JOB_ENDS",
    "REFUSALS",
    "RIGHTS",
    "UNFIT",
    "WAITS",
    "Cause",
    "Cluster",
    "ClusterFindings",
    "ClusterNode",
    "Explained",
    "Fault",
    "JobState",
    "Listed",
    "Look",
    "NoKubeconfigError",
    "Object",
    "PodState",
    "Refused",
    "Right",
    "Silence",
    "Version",
    "Watch",
    "as_yaml",
    "check_daemon_set",
    "connect",
    "container_context",
    "default_user",
    "explain_creation",
    "explain_event",
    "explain_job",
    "explain_pod",
    "explain_quota",
    "explain_refusal",
    "explain_workload",
    "faults_of",
    "home_variables",
    "in_form",
    "is_gpu",
    "job_of_workload",
    "lacking_right",
    "merged",
    "pod_context",
    "problem_detector_set",
    "quantity",
    "role_for",
    "setup",
    "survey_cluster",
    "why_out_of_bounds",
]

_MODULES = {
    "Cause": "pod_rows",
    "Cluster": "cluster",
    "ClusterFindings": "survey",
    "ClusterNode": "nodes",
    "DISRUPTIONS": "pod_rows",
    "ENDS": "pod_rows",
    "Explained": "refusals",
    "Fault": "overlays",
    "JOB_ENDS": "jobs",
    "JobState": "jobs",
    "Listed": "answers",
    "Look": "look",
    "NoKubeconfigError": "kubeconfig",
    "Object": "answers",
    "PodState": "pods",
    "REFUSALS": "refusals",
    "JOBSET_RIGHTS": "manifests",
    "RIGHTS": "manifests",
    "UNFIT": "pods",
    "Refused": "answers",
    "Right": "answers",
    "Silence": "answers",
    "Version": "answers",
    "WAITS": "pod_rows",
    "Watch": "watch",
    "as_yaml": "manifests",
    "check_daemon_set": "manifests",
    "connect": "cluster",
    "container_context": "pod_security",
    "default_user": "pod_security",
    "explain_creation": "events",
    "explain_event": "events",
    "explain_job": "jobs",
    "in_form": "answers",
    "explain_pod": "pods",
    "explain_quota": "events",
    "explain_refusal": "refusals",
    "explain_workload": "workloads",
    "faults_of": "overlays",
    "home_variables": "pod_security",
    "is_gpu": "quantities",
    "job_of_workload": "workloads",
    "lacking_right": "refusals",
    "merged": "overlays",
    "pod_context": "pod_security",
    "problem_detector_set": "manifests",
    "quantity": "quantities",
    "role_for": "manifests",
    "setup": "manifests",
    "survey_cluster": "survey",
    "why_out_of_bounds": "bounds",
}


def __getattr__(name: str) -> object:
    """Import a module when a name of it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

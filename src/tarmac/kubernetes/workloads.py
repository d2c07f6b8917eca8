"""Explanations from Kueue's Workloads: why a queued Job is not admitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.kubernetes.answers import Object, in_form

# In the order of admission. After an eviction, its reason holds until the next reservation:
# https://kueue.sigs.k8s.io/docs/concepts/workload/
_CONDITIONS = (("QuotaReserved", "False"), ("Admitted", "False"), ("Evicted", "True"))


@in_form
def job_of_workload(workload: Object) -> str:
    """Return the name of the Job or JobSet of a Workload; empty if it has none."""
    owners = (workload.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(it.get("name")) for it in owners if it.get("kind") in ("Job", "JobSet")), "")


@in_form
def explain_workload(workload: Object) -> str:
    """Return why a Workload is not admitted, in Kueue's words; empty if no reason is known.

    Example:
        >>> explain_workload({"status": {"conditions": [{"type": "QuotaReserved", "status": "False",
        ...     "message": "ClusterQueue gpus is inactive"}]}})
        'ClusterQueue gpus is inactive'
    """
    status: Mapping[str, Any] = workload.get("status") or {}
    messages = {
        (it.get("type"), it.get("status")): " ".join(str(it.get("message") or "").split())
        for it in status.get("conditions") or ()
    }
    if ("Admitted", "True") in messages:
        return ""
    return next((messages[condition] for condition in _CONDITIONS if messages.get(condition)), "")

"""Explanations of a Job's conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tarmac.kubernetes.answers import Object, in_form

# Reasons of the conditions Failed and FailureTarget: pkg/apis/batch of Kubernetes, 1.36.
JOB_ENDS: Mapping[str, str] = {
    "DeadlineExceeded": "it ran longer than an activeDeadlineSeconds, which Tarmac does not set: "
    "somebody has changed the Job",
    "MaxFailedIndexesExceeded": "more of its indexes failed than it allows, which Tarmac does not "
    "bound: somebody has changed the Job",
    "BackoffLimitExceeded": "one of its pods failed",
    "PodFailurePolicy": "a pod failed in a way that its failure policy names",
    "FailedIndexes": "some of its indexes failed",
}


class JobState(NamedTuple):
    """The state of a Job.

    Attributes:
        phase: Phase of the Job. ``held``: suspended, by a queue or by a user.
        reason: Reason of the Job's condition, in Kubernetes' words. Empty: no reason.
        words: Explanation for users, with the cluster's message if there is one.
    """

    phase: Literal["held", "running", "completed", "failed"]
    reason: str = ""
    words: str = ""


@in_form
def explain_job(job: Object) -> JobState:
    """Return the state of a Job from its conditions."""
    conditions = {
        str(it.get("type")): it
        for it in (job.get("status") or {}).get("conditions") or ()
        if it.get("status") == "True"
    }
    if "Complete" in conditions or "SuccessCriteriaMet" in conditions:
        return JobState("completed")
    failed = conditions.get("Failed") or conditions.get("FailureTarget")
    if failed is not None:
        reason = str(failed.get("reason") or "")
        message = str(failed.get("message") or reason)
        words = JOB_ENDS.get(reason)
        return JobState("failed", reason, f"{words} ({message})" if words else message)
    if (job.get("spec") or {}).get("suspend"):
        labels = (job.get("metadata") or {}).get("labels") or {}
        queue = labels.get("kueue.x-k8s.io/queue-name")
        words = f"waits in the queue {queue}" if queue else "is suspended"
        return JobState("held", "Suspended", words)
    return JobState("running")

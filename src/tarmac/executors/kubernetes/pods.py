"""Reduces pods and Jobs to the fields that matter, and explains their endings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tarmac.executors.kubernetes.manifests import CHECK, CONTAINER, NONCE, OF_JOBSET
from tarmac.executors.queueing import Ending
from tarmac.kubernetes import DISRUPTIONS, PodState, explain_pod, in_form

_LONGEST_WORDS = 300

_JOB_LABELS = (OF_JOBSET, "batch.kubernetes.io/job-name", "job-name")


@dataclasses.dataclass(frozen=True)
class SeenPod:
    """The fields of a pod that matter.

    Attributes:
        name: Name of the pod, unique in its namespace.
        job: Name of the pod's Job, or of the JobSet that has the Job.
        index: Completion index of the pod in its Job, from 0.
        created: Creation time, as Kubernetes writes it; empty where unknown.
        phase: Phase of the pod, by Kubernetes' name: ``Pending``, ``Running``, ``Succeeded``,
            ``Failed``.
        host: Name of its node; empty while the pod has none.
        matter: Problem that holds the pod up, independent of its wording; empty for none.
        reason: Problem in words, for people; empty for none.
        limit_s: Seconds that the problem may last before the pod is ended; None for no limit.
        reported_disruption: Disruption of the pod; None for none.
        ending: Ending of the pod; None while it has not ended.
        has_log: Whether its container has ever begun.
        is_deleted: Whether the pod is being deleted.
    """

    name: str
    job: str
    index: int
    created: str
    phase: str
    host: str = ""
    matter: str = ""
    reason: str = ""
    limit_s: float | None = None
    reported_disruption: Ending | None = None
    ending: Ending | None = None
    has_log: bool = True
    is_deleted: bool = False

    @property
    def disruption(self) -> Ending | None:
        """The disruption of the pod; None where its program had succeeded by then."""
        return None if self.phase == "Succeeded" else self.reported_disruption

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended."""
        return self.phase in ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True)
class SeenJob:
    """The fields of a Job that matter.

    Attributes:
        name: Name of the Job, unique in its namespace.
        made: Name of the submitted object: the Job, or the JobSet that made it.
        nonce: Nonce of the chunk that the Job was made for.
        is_suspended: Whether the Job may not start yet.
        completed: Completion indexes that have succeeded.
        failed: Completion indexes that have failed.
        problem: Reason for which the whole Job has failed, for people; empty for none.
        lacks_pods: Whether it has fewer pods than it wants now.
    """

    name: str
    made: str
    nonce: str
    is_suspended: bool
    completed: frozenset[int]
    failed: frozenset[int]
    problem: str = ""
    lacks_pods: bool = False


@in_form
def keep_pod(pod: Mapping[str, Any]) -> SeenPod:
    """Return the fields of a pod that matter."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    state = explain_pod(pod, container=CONTAINER, preflight=CHECK)
    phase = str(status.get("phase") or "Pending")
    index = annotations.get("batch.kubernetes.io/job-completion-index", "0")
    return SeenPod(
        name=metadata["name"],
        job=next((labels[key] for key in _JOB_LABELS if key in labels), ""),
        index=int(index),
        created=str(metadata.get("creationTimestamp") or ""),
        phase=phase,
        host=state.host,
        matter=state.matter,
        reason=_short(_told(state.words)) if state.matter else "",
        limit_s=state.limit_s,
        reported_disruption=_disruption(pod, state.host),
        ending=_ending(state) if phase in ("Succeeded", "Failed") else None,
        has_log=not _is_stuck_before(status),
        is_deleted="deletionTimestamp" in metadata,
    )


@in_form
def keep_job(job: Mapping[str, Any]) -> SeenJob:
    """Return the fields of a Job that matter."""
    metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
    problem, is_over = "", False
    for condition in status.get("conditions") or ():
        is_over |= condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        if condition["type"] == "Failed" and condition["status"] == "True":
            problem = f"{condition.get('reason')}: {_short(condition.get('message') or '')}"
    completed = _indexes(status.get("completedIndexes") or "")
    failed = _indexes(status.get("failedIndexes") or "")
    left = int(spec.get("completions") or 0) - len(completed) - len(failed)
    wanted = min(int(spec.get("parallelism") or 0), left)
    is_suspended = bool(spec.get("suspend"))
    return SeenJob(
        name=metadata["name"],
        made=(metadata.get("labels") or {}).get(OF_JOBSET) or metadata["name"],
        nonce=str((metadata.get("annotations") or {}).get(NONCE) or ""),
        is_suspended=is_suspended,
        completed=completed,
        failed=failed,
        problem=problem,
        lacks_pods=not is_suspended and not is_over and int(status.get("active") or 0) < wanted,
    )


def _is_stuck_before(status: Mapping[str, Any]) -> bool:
    """Return whether an init container has failed, so that no further container begins."""
    states = [
        container.get("state") or {} for container in status.get("initContainerStatuses") or ()
    ]
    return any((state.get("terminated") or {}).get("exitCode") for state in states)


def _disruption(pod: Mapping[str, Any], host: str) -> Ending | None:
    """Return the disruption of a pod, which its status shows before its end; None for none."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            row = DISRUPTIONS.get(
                str(condition.get("reason")), DISRUPTIONS["EvictionByEvictionAPI"]
            )
            message = str(condition.get("message") or "")
            words = _short(f"{_told(row.words)}: {message}" if message else _told(row.words))
            return Ending(row.cause, words, host, when=str(pod["metadata"]["name"]))
    return None


def _ending(state: PodState) -> Ending:
    """Return how a pod ended according to Kubernetes.

    Where the program began, its agent's record says more. An exit before that is a failed start.
    """
    if state.cause is None:
        return Ending(None, state.reason, state.host)
    words = _told(state.words)
    if state.reason == "Evicted":
        # Evictions for others are a DisruptionTarget; this one is the pod's own memory or disk
        # limit.
        return Ending(state.cause, _short(words), state.host, is_own_limit=True)
    if state.cause in ("exit", "signal") and state.exit_code:
        ended = f"its container {state.words}"
        words = f"{ended} before its program began"
        words += f": {state.message}" if state.message else ""
        return Ending("start", _short(words), state.host, begun_words=ended)
    bad_host = state.host if state.is_unfit else ""
    return Ending(state.cause, _short(words), state.host, bad_host=bad_host)


def _told(words: str) -> str:
    return words if words.startswith(("its ", "no ", "another ")) else f"it {words}"


def _indexes(text: str) -> frozenset[int]:
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return frozenset(indexes)


def _short(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= _LONGEST_WORDS else f"{line[: _LONGEST_WORDS - 1]}…"

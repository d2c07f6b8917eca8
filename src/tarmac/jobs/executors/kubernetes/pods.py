"""What is kept of each pod and Job, and what Kubernetes' words about them mean."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tarmac.jobs.executors.kubernetes.manifests import CHECK, CONTAINER, OF_JOBSET
from tarmac.jobs.executors.queueing import Ending
from tarmac.kubernetes import DISRUPTIONS, explain_pod, in_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.kubernetes import PodState

_LONGEST_WORDS = 300

_JOB_LABELS = (OF_JOBSET, "batch.kubernetes.io/job-name", "job-name")


@dataclasses.dataclass(frozen=True)
class SeenPod:
    """A pod, as far as it matters here.

    Attributes:
        name: Name of the pod, unique in its namespace.
        job: Name of the pod's Job, or of the JobSet that has the Job.
        index: Completion index of the pod in its Job, from 0.
        created: Creation time, as Kubernetes writes it; empty where unknown.
        phase: Phase of the pod, by Kubernetes' name: ``Pending``, ``Running``, ``Succeeded``,
            ``Failed``.
        host: Name of its node; empty while the pod has none.
        matter: What keeps it, the same for all words that mean it; empty where nothing does.
        reason: The matter in words, for people; empty for none.
        limit_s: It is ended once `matter` has kept it for so long; None: never.
        told: How others' needs end it; None where they do not.
        ending: How it ended; None while it has not.
        has_log: Whether its container has ever begun.
        is_deleted: Whether somebody has deleted it, so that it ends.
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
    told: Ending | None = None
    ending: Ending | None = None
    has_log: bool = True
    is_deleted: bool = False

    @property
    def disruption(self) -> Ending | None:
        """How others' needs have ended it; one that had succeeded by then is done all the same."""
        return None if self.phase == "Succeeded" else self.told

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.phase in ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True)
class SeenJob:
    """A Job, as far as it matters here.

    Attributes:
        name: Name of the Job, unique in its namespace.
        made: Name of the object that was submitted: the Job's own, or that of its JobSet.
        nonce: Nonce of the chunk that the Job was made for.
        is_suspended: Whether it is not to start yet.
        completed: Indexes that have succeeded.
        failed: Indexes that have failed.
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
    """Return what matters of a pod."""
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
        told=_disruption(pod, state.host),
        ending=_ending(state) if phase in ("Succeeded", "Failed") else None,
        has_log=not _is_stuck_before(status),
        is_deleted="deletionTimestamp" in metadata,
    )


@in_form
def keep_job(job: Mapping[str, Any]) -> SeenJob:
    """Return what matters of a Job."""
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
        nonce=str((metadata.get("annotations") or {}).get("tarmac.dev/nonce") or ""),
        is_suspended=is_suspended,
        completed=completed,
        failed=failed,
        problem=problem,
        lacks_pods=not is_suspended and not is_over and int(status.get("active") or 0) < wanted,
    )


def _is_stuck_before(status: Mapping[str, Any]) -> bool:
    """Whether an init container has failed, after which no other begins."""
    states = [each.get("state") or {} for each in status.get("initContainerStatuses") or ()]
    return any((state.get("terminated") or {}).get("exitCode") for state in states)


def _disruption(pod: Mapping[str, Any], host: str) -> Ending | None:
    """Return how others' needs end a pod, which its status says before it has ended."""
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
    """Return how a pod ended by Kubernetes' word.

    Where its program began, its agent has said more; one that has not is a failure to start.
    """
    if state.cause is None:
        return Ending(None, state.reason, state.host)
    words = _told(state.words)
    if state.reason == "Evicted":
        # Others' needs are a DisruptionTarget; this is the pod's own limit of memory or disk.
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

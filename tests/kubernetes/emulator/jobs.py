"""The Job controller: Indexed Jobs, as ``pkg/controller/job`` runs them.

A Job is looked at whenever it or one of its pods changes: pods that are over are counted, what the
counts decide is done, and pods that are missing are made. Jobs that are not Indexed
are run as well, with the index left out.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Mapping
from typing import Any

from . import intervals
from .errors import ApiError
from .events import tell
from .job_pods import (
    FINALIZER,
    controller_of,
    ended_at,
    failures_of,
    index_of,
    pod_of,
    release,
)
from .job_policy import Verdict, verdict
from .kinds import JOB, POD
from .objects import Objects
from .store import Change, Thing, conditions, now, seconds_since

_BY = "job-controller"
# The controller makes at most this many pods in one look (MaxPodCreateDeletePerSync).
_AT_ONCE = 500
# A pod that failed is made again 10 s later, doubled each time, in the real controller. Tests wait
# less; the ratio stays.
BACKOFF_S = 0.2
_LONGEST_BACKOFF_S = 10.0


class JobController:
    """Makes the pods of Jobs and counts how they end."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pods: dict[str, dict[str, Thing]] = collections.defaultdict(dict)
        self._past: dict[str, int] = {}

    def concerns(self, change: Change) -> list[tuple[str, str]]:
        """Return the job that changed, or whose pod did."""
        thing = change.after or change.before or {}
        metadata = thing["metadata"]
        if change.kind is JOB:
            return [(metadata["namespace"], metadata["name"])]
        if change.kind is not POD or (owner := controller_of(thing)) is None:
            return []
        pods = self._pods[owner["uid"]]
        if change.after is None:
            pods.pop(metadata["name"], None)
        else:
            pods[metadata["name"]] = change.after
        return [(metadata["namespace"], owner["name"])]

    def look(self, token: tuple[str, str]) -> float | None:
        """Bring a job forward."""
        objects = self._objects
        with objects.store.changed:
            job = objects.store.get(JOB, *token)
            if job is None:
                self._release_orphans()
                return None
            pods = list(self._pods[job["metadata"]["uid"]].values())
            return _Look(objects, job, pods, self._past).run()

    def _release_orphans(self) -> None:
        """Take the finalizer from pods whose job is gone, as the real controller does."""
        jobs = {job["metadata"]["uid"] for job in self._objects.store.list(JOB)}
        for uid, pods in list(self._pods.items()):
            if uid not in jobs:
                for pod in list(pods.values()):
                    release(self._objects, pod)
                if not pods:
                    del self._pods[uid]


class _Look:
    """One look at one job."""

    def __init__(
        self, objects: Objects, job: Thing, pods: list[Thing], past: dict[str, int]
    ) -> None:
        self.objects = objects
        self.past = past
        self.job = job
        self.spec = job["spec"]
        self.status = copy.deepcopy(job.get("status") or {})
        self.pods = pods
        self.is_indexed = self.spec["completionMode"] == "Indexed"
        self.succeeded = intervals.read(self.status.get("completedIndexes", ""))
        self.failed = intervals.read(self.status.get("failedIndexes", ""))
        self.failures = 0
        self.now_over = {condition["type"] for condition in conditions(job)}

    def run(self) -> float | None:
        if self.now_over & {"Complete", "Failed"}:
            for pod in self.pods:
                release(self.objects, pod)
            return self._expire()
        if not self.status.get("startTime") and not self.spec["suspend"]:
            self.status["startTime"] = now()
        verdicts = self._count()
        counted = [pod for pod, _ in verdicts]
        again = self._decide(verdicts)
        self._meet_criteria()
        waits = None
        if self.job["metadata"].get("deletionTimestamp"):
            if not self.pods:
                # The garbage collector is faster than what would be said now.
                return None
            counted = self.pods
        elif self._is_ending():
            counted += self._end_all()
        else:
            self._suspend()
            waits = self._make()
        self._write()
        for pod in counted:
            release(self.objects, pod)
        # Failures are counted once their pods are let go, and that is written with how all ended.
        if self.failures:
            self.status["failed"] = self.status.get("failed", 0) + self.failures
        if self._is_ending() and not self._active() and not self._terminating():
            self._conclude()
        self._write()
        return min((it for it in (again, waits) if it is not None), default=None)

    def _count(self) -> list[tuple[Thing, Verdict]]:
        """Count the pods that are over and were not counted, and return how each ended."""
        over = []
        replaces_early = self.spec["podReplacementPolicy"] == "TerminatingOrFailed"
        for pod in self.pods:
            if FINALIZER not in (pod["metadata"].get("finalizers") or ()):
                continue
            phase = pod["status"].get("phase")
            is_gone = bool(pod["metadata"].get("deletionTimestamp"))
            # A pod that is deleted before a node has it never gets a phase that is final: the real
            # garbage collector for pods fails it. One that is on a node ends there.
            if phase not in ("Succeeded", "Failed") and not (
                is_gone and (not pod["spec"].get("nodeName") or replaces_early)
            ):
                continue
            over.append((pod, verdict(self.spec, pod)))
        for pod, how in over:
            index = index_of(pod)
            if how is Verdict.SUCCEEDED:
                self.status["succeeded"] = self.status.get("succeeded", 0) + 1
                if index is not None:
                    self.succeeded.add(index)
                continue
            self.failures += how is not Verdict.IGNORE
            if how is Verdict.FAIL_INDEX and index is not None:
                self.failed.add(index)
            elif how is not Verdict.IGNORE and index is not None:
                limit = self.spec.get("backoffLimitPerIndex")
                if limit is not None and failures_of(pod) + 1 > limit:
                    self.failed.add(index)
        self.failed -= self.succeeded
        return over

    def _decide(self, verdicts: list[tuple[Thing, Verdict]]) -> float | None:
        """Set the conditions that end the job; return when to look again for its deadline."""
        for pod, how in verdicts:
            if how is Verdict.FAIL_JOB:
                self._fail_target("PodFailurePolicy", _policy_words(pod, self.spec))
        counted = sum(how is Verdict.COUNT for _, how in verdicts)
        # From what is counted and not from the pods that are there: finished pods may be deleted.
        uid = self.job["metadata"]["uid"]
        self.past[uid] = self.past.get(uid, 0) + counted
        if self.past[uid] > self.spec["backoffLimit"]:
            self._fail_target("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self.failed) > most:
            self._fail_target(
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        deadline = self.spec.get("activeDeadlineSeconds")
        if deadline is None or not self.status.get("startTime") or self.spec["suspend"]:
            return None
        left = deadline - seconds_since(self.status["startTime"])
        if left <= 0:
            self._fail_target("DeadlineExceeded", "Job was active longer than specified deadline")
            return None
        return left

    def _meet_criteria(self) -> None:
        """Set the condition that the job is about to be over."""
        completions = self.spec.get("completions")
        if self.is_indexed:
            total = len(self.succeeded) + len(self.failed)
            if not self._is_ending() and total >= completions:
                if self.failed:
                    self._fail_target("FailedIndexes", "Job has failed indexes")
                else:
                    self._condition(
                        "SuccessCriteriaMet",
                        "CompletionsReached",
                        "Reached expected number of succeeded pods",
                    )
        elif (
            not self._is_ending()
            and completions is not None
            and self.status.get("succeeded", 0) >= completions
        ):
            words = "Reached expected number of succeeded pods"
            self._condition("SuccessCriteriaMet", "CompletionsReached", words)

    def _end_all(self) -> list[Thing]:
        """End the pods of a job that is about to be over; return those that it lets go."""
        for pod in self._active():
            self._delete(pod)
        left = [it for it in self._now() if FINALIZER in (it["metadata"].get("finalizers") or ())]
        if any(it["type"] == "FailureTarget" for it in self.status["conditions"]):
            self.failures += len(left)
        return left

    def _conclude(self) -> None:
        """Set the condition that the job is over."""
        target = next(
            it
            for it in self.status["conditions"]
            if it["type"] in ("FailureTarget", "SuccessCriteriaMet")
        )
        if target["type"] == "FailureTarget":
            self._condition("Failed", target["reason"], target["message"])
            tell(self.objects, self.job, target["reason"], target["message"], by=_BY)
        else:
            self._condition("Complete", target["reason"], target["message"])
            self.status["completionTime"] = now()
            tell(self.objects, self.job, "Completed", "Job completed", kind="Normal", by=_BY)

    def _write(self) -> None:
        active, terminating = self._active(), self._terminating()
        self.status |= {
            "active": len(active),
            "terminating": len(terminating),
            "ready": sum(any(it["type"] == "Ready" for it in conditions(pod)) for pod in active),
            "uncountedTerminatedPods": {},
        }
        if self.is_indexed:
            self.status["completedIndexes"] = intervals.written(self.succeeded)
            if self.spec.get("backoffLimitPerIndex") is not None:
                self.status["failedIndexes"] = intervals.written(self.failed)
            if not self.succeeded:
                del self.status["completedIndexes"]
        self.objects.set_status(JOB, self.job, self.status)

    def _suspend(self) -> None:
        is_said = any(it["type"] == "Suspended" for it in conditions({"status": self.status}))
        if self.spec["suspend"]:
            for pod in self._active():
                self._drop(pod)
            if not is_said:
                self._condition("Suspended", "JobSuspended", "Job suspended")
                self.status.pop("startTime", None)
                tell(self.objects, self.job, "Suspended", "Job suspended", kind="Normal", by=_BY)
        elif is_said:
            self._condition("Suspended", "JobResumed", "Job resumed", status="False")
            self.status["startTime"] = now()
            tell(self.objects, self.job, "Resumed", "Job resumed", kind="Normal", by=_BY)

    def _make(self) -> float | None:
        """Make the pods that are missing; return in how many seconds to make more."""
        if self.spec["suspend"] or self._is_ending():
            return None
        active = self._active()
        holding = active + (
            self._terminating() if self.spec["podReplacementPolicy"] == "Failed" else []
        )
        completions = self.spec.get("completions")
        room = self.spec["parallelism"] - len(holding)
        if room < 0:
            for pod in active[room:]:
                self._drop(pod)
            return None
        if not self.is_indexed:
            left = room if completions is None else completions - self.status.get("succeeded", 0)
            wanted: list[int | None] = [None] * max(0, min(room, left - len(holding)))
        else:
            taken = {index_of(pod) for pod in holding} | self.succeeded | self.failed
            free = (index for index in range(completions) if index not in taken)
            wanted = [index for index, _ in zip(free, range(room), strict=False)]
        waits: list[float] = []
        for number, index in enumerate(wanted):
            if number == _AT_ONCE:
                return 0.0
            failures, wait = self._backoff(index)
            if wait > 0:
                waits.append(wait)
                continue
            try:
                self._create(index, failures)
            except ApiError as error:
                tell(
                    self.objects,
                    self.job,
                    "FailedCreate",
                    f"Error creating: {error.message}",
                    by=_BY,
                )
                return 0.5
        return min(waits, default=None)

    def _backoff(self, index: int | None) -> tuple[int, float]:
        """Return an index's failures so far, and how long it still waits for them."""
        failed = [
            pod
            for pod in self.pods
            if index_of(pod) == index
            and pod["status"].get("phase") == "Failed"
            and verdict(self.spec, pod) is Verdict.COUNT
        ]
        count = max((failures_of(pod) + 1 for pod in failed), default=0)
        if not failed or self.spec["backoffLimit"] == 0:
            return count, 0.0
        last = max(ended_at(pod) for pod in failed)
        wait = min(_LONGEST_BACKOFF_S, BACKOFF_S * 2 ** max(0, count - 1))
        return count, wait - seconds_since(last) if last else 0.0

    def _create(self, index: int | None, failures: int) -> None:
        pod = pod_of(self.job, index, failures)
        made = self.objects.create(POD, self.job["metadata"]["namespace"], pod)
        self.pods.append(made)
        message = f"Created pod: {made['metadata']['name']}"
        tell(self.objects, self.job, "SuccessfulCreate", message, kind="Normal", by=_BY)

    def _expire(self) -> float | None:
        """Delete a job that is over for long enough (ttlSecondsAfterFinished)."""
        ttl = self.spec.get("ttlSecondsAfterFinished")
        metadata = self.job["metadata"]
        if ttl is None or "deletionTimestamp" in metadata:
            return None
        ended = next(
            it["lastTransitionTime"]
            for it in conditions(self.job)
            if it["type"] in ("Complete", "Failed")
        )
        left = ttl - seconds_since(ended)
        if left > 0:
            return left
        self.objects.delete(JOB, metadata["namespace"], metadata["name"], propagation="Foreground")
        return None

    def _fail_target(self, reason: str, message: str) -> None:
        if not self._is_ending():
            self._condition("FailureTarget", reason, message)

    def _is_ending(self) -> bool:
        return any(
            it["type"] in ("FailureTarget", "SuccessCriteriaMet")
            for it in self.status.get("conditions") or ()
        )

    def _condition(self, kind: str, reason: str, message: str, status: str = "True") -> None:
        others = [it for it in self.status.get("conditions") or () if it["type"] != kind]
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": now(),
            "lastTransitionTime": now(),
        }
        self.status["conditions"] = [*others, condition]

    def _now(self) -> list[Thing]:
        here = (
            self.objects.store.get(POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
            for pod in self.pods
        )
        return [
            pod
            for pod in here
            if pod is not None and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def _active(self) -> list[Thing]:
        return [pod for pod in self._now() if "deletionTimestamp" not in pod["metadata"]]

    def _terminating(self) -> list[Thing]:
        return [pod for pod in self._now() if "deletionTimestamp" in pod["metadata"]]

    def _drop(self, pod: Thing) -> None:
        """Delete a pod that is not to be counted: the finalizer goes first (deleteJobPods)."""
        release(self.objects, pod)
        self._delete(pod)

    def _delete(self, pod: Thing) -> None:
        metadata = pod["metadata"]
        self.objects.delete(POD, metadata["namespace"], metadata["name"])


def _policy_words(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for it in pod["status"].get("containerStatuses") or ():
        ended = it["state"].get("terminated")
        if ended and ended["exitCode"]:
            for number, rule in enumerate(spec["podFailurePolicy"]["rules"]):
                if rule["action"] == "FailJob" and "onExitCodes" in rule:
                    return (
                        f"Container {it['name']} for pod {name} failed with exit code "
                        f"{ended['exitCode']} matching FailJob rule at index {number}"
                    )
    return f"Pod {name} has condition DisruptionTarget matching FailJob rule"

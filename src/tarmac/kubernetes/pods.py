"""Explanations of a pod's status: phase, cause and words, from the pod and its events.

The tables are in `pod_rows`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from tarmac.kubernetes.answers import Object, in_form
from tarmac.kubernetes.events import explain_event
from tarmac.kubernetes.pod_rows import DISRUPTIONS, ENDS, WAITS, Cause, End


@dataclasses.dataclass(frozen=True, kw_only=True)
class PodState:
    """The state of a pod.

    Attributes:
        phase: Phase of the pod. ``over`` is final, even if the result is stored elsewhere.
        matter: Subject of the wait, the same for all Kubernetes reasons with one meaning:
            ``room``, ``image``, ``configuration``, ``start``, ``volume``, ``node``. Empty: nothing
            is wrong.
        reason: Kubernetes' word for the state, such as ``ImagePullBackOff``. Empty: none.
        words: Explanation for users, with advice if the user can act.
        since: Start of a wait for room, as a Kubernetes timestamp.
        host: Name of the pod's node. Empty before it is scheduled.
        cause: Why a finished pod failed, or the cause to fail a stuck pod with. None: no failure.
        limit_s: Seconds with the same ``matter`` after which the pod fails. None: never. 0: at
            once.
        exit_code: Exit code of the container. None if the container has none.
        message: Termination message of the container.
        is_disturbance: Whether a finished pod is started again without counting as a retry.
        is_unfit: Whether the preflight check found the GPUs of the pod's node unfit.
    """

    phase: Literal["waiting", "running", "over"]
    matter: str = ""
    reason: str = ""
    words: str = ""
    since: str = ""
    host: str = ""
    cause: Cause | None = None
    limit_s: float | None = None
    exit_code: int | None = None
    message: str = ""
    is_disturbance: bool = False
    is_unfit: bool = False


# Messages of a registry that is temporarily busy or unreachable.
_PASSING = re.compile(
    r"toomanyrequests|too many requests|i/o timeout|deadline exceeded|connection re(?:set|fused)|"
    r"tls handshake timeout|\b50[0234]\b|service unavailable|EOF\b",
    re.IGNORECASE,
)
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (
            r"unauthorized|denied|authentication required|forbidden",
            "log in to the registry: kubectl create secret docker-registry, and name it among "
            "imagePullSecrets of the service account",
        ),
        (r"no such host", "correct the registry's name in `image`"),
        (r"not found|manifest unknown|does not exist", "correct the name or tag of `image`"),
        (r"no match for platform|exec format", "the image is for another kind of processor"),
    )
)
_TROUBLES = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
# Exit code of the preflight container for an unfit GPU: neither Python's 1 nor a shell's 127.
UNFIT = 4

# A node that stops answering may come back within this time with its pod still running.
LOST_NODE_S = 600.0


@in_form
def explain_pod(
    pod: Object,
    *,
    container: str = "main",
    preflight: str = "check",
    events: Iterable[Object] = (),
) -> PodState:
    """Return the state of a pod.

    Args:
        pod: Pod from the API, with its status.
        container: Name of the container that runs the program. Default ``main``.
        preflight: Name of the init container that exits with ``UNFIT`` for an unfit GPU. Default
            ``check``.
        events: Events of the pod, oldest first. They explain a wait better than its status.
    """
    status: Mapping[str, Any] = pod.get("status") or {}
    host = str((pod.get("spec") or {}).get("nodeName") or "")
    state = _named(status.get("containerStatuses"), container).get("state") or {}
    phase = status.get("phase")
    if phase in ("Succeeded", "Failed") or "terminated" in state:
        return dataclasses.replace(_ended(status, state, preflight), host=host)
    disrupted = _condition(status, "DisruptionTarget")
    if "deletionTimestamp" in (pod.get("metadata") or {}):
        reason = str(disrupted.get("reason") or "")
        is_lost = reason == "DeletionByTaintManager" or status.get("reason") == "NodeLost"
        return PodState(
            phase="running" if "running" in state else "waiting",
            matter="node" if is_lost else "",
            reason=reason or "Terminating",
            words="its node does not answer" if is_lost else "is being ended",
            host=host,
            cause="node" if is_lost else None,
            limit_s=LOST_NODE_S if is_lost else None,
        )
    if phase == "Unknown":
        words = "its node does not answer"
        return PodState(
            phase="running", matter="node", reason="Unknown", words=words, host=host, cause="node",
            limit_s=LOST_NODE_S,
        )  # fmt: skip
    if "running" in state:
        return PodState(phase="running", host=host)
    return dataclasses.replace(_waiting(status, tuple(events)), host=host)


def _waiting(status: Mapping[str, Any], events: tuple[Object, ...]) -> PodState:
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        reason = str(scheduled.get("reason") or "Unschedulable")
        row = WAITS.get(reason, WAITS["Unschedulable"])
        sentence = shorten_scheduler(str(scheduled.get("message") or ""))
        return PodState(
            phase="waiting",
            matter=row.matter,
            reason=reason,
            words=f"{row.words}: {sentence}" if sentence else row.words,
            since=str(scheduled.get("lastTransitionTime") or ""),
        )
    for container in (*_statuses(status, "initContainerStatuses"), *_statuses(status)):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if not reason or reason not in WAITS or not WAITS[reason].matter:
            continue
        return _held_up(reason, _best_message(reason, str(waiting.get("message") or ""), events))
    troubled = [event for event in events if event.get("reason") in _TROUBLES]
    if troubled:
        return PodState(
            phase="waiting",
            matter="volume",
            reason=str(troubled[-1]["reason"]),
            words=f"cannot begin on its node: {explain_event(troubled[-1])}",
        )
    is_bound = scheduled.get("status") == "True"
    reason = "ContainerCreating" if is_bound else ""
    words = WAITS[reason].words if is_bound else "was just created"
    return PodState(phase="waiting", reason=reason, words=words)


def _held_up(reason: str, message: str) -> PodState:
    row, limit_s = WAITS[reason], WAITS[reason].limit_s
    advice = ""
    if row.matter == "image":
        advice = next((advice for pattern, advice in _ADVICE if pattern.search(message)), "")
        if limit_s and not advice and _PASSING.search(message):
            limit_s = None
    elif row.matter == "configuration":
        if "failed to sync" in message:
            # The kubelet has not read the object yet; it may exist.
            limit_s = None
        elif "not found" in message or "couldn't find key" in message:
            advice = "create it, in the same namespace"
    words = f"{row.words}: {message}" if message else row.words
    return PodState(
        phase="waiting",
        matter=row.matter,
        reason=reason,
        words=f"{words}; {advice}" if advice else words,
        cause="start" if limit_s is not None else None,
        limit_s=limit_s,
    )


def _best_message(reason: str, message: str, events: tuple[Object, ...]) -> str:
    """Return the registry's message; an ImagePullBackOff status has it only from 1.31 on."""
    if reason == "ImagePullBackOff" and "rror" not in message:
        messages = [str(it.get("message") or "") for it in events if it.get("reason") == "Failed"]
        return next((text for text in reversed(messages) if "pull image" in text), message)
    return message


def _ended(status: Mapping[str, Any], state: Mapping[str, Any], preflight: str) -> PodState:
    last = state.get("terminated") or {}
    message = str(last.get("message") or "")
    code = last.get("exitCode")
    if status.get("phase") == "Succeeded" or (code == 0 and status.get("phase") != "Failed"):
        return PodState(phase="over", reason="Completed", exit_code=code, message=message)
    ended = _ended_by_cluster(status) or _ended_before(status, last, preflight)
    if ended is None:
        ended = _ended_itself(last, str(status.get("message") or ""))
    return dataclasses.replace(ended, exit_code=code, message=message or ended.message)


def _ended_by_cluster(status: Mapping[str, Any]) -> PodState | None:
    disrupted = _condition(status, "DisruptionTarget")
    if disrupted.get("status") == "True":
        reason = str(disrupted.get("reason") or "")
        row = DISRUPTIONS.get(reason, DISRUPTIONS["EvictionByEvictionAPI"])
        return _over(row, reason, str(disrupted.get("message") or ""))
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if reason == "Evicted" and "memory" in message.lower():
        return _over(ENDS["OOMKilled"], reason, message)
    row = ENDS.get(reason, ENDS["OutOfcpu"])
    return _over(row, reason, message) if reason in ENDS or reason.startswith("OutOf") else None


def _ended_before(
    status: Mapping[str, Any], last: Mapping[str, Any], preflight: str
) -> PodState | None:
    for container in _statuses(status, "initContainerStatuses"):
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode") and not last:
            return _unprepared(str(container.get("name")), ended, preflight)
    return None


def _ended_itself(last: Mapping[str, Any], pod_message: str) -> PodState:
    reason, code = str(last.get("reason") or ""), last.get("exitCode")
    if reason in ENDS:
        # A StartError has the runtime's message; other reasons have the program's own.
        message = str(last.get("message") or "")
        return _over(ENDS[reason], reason, message if ENDS[reason].cause == "start" else "")
    if code is None:
        return _over(End("lost", "has ended, with an unknown result"), reason, pod_message)
    if code == 0:
        row = End("exit", "another container of its pod failed")
    elif code > 128:
        row = End("signal", f"was ended by signal {code - 128}")
    else:
        row = End("exit", f"ended with exit code {code}")
    return _over(row, reason, "")


def _unprepared(name: str, ended: Mapping[str, Any], preflight: str) -> PodState:
    message = str(ended.get("message") or "").strip()
    code = ended.get("exitCode")
    is_unfit = name == preflight and code == UNFIT
    if is_unfit:
        row = End("node", "its node has a GPU that is not fit", is_disturbance=True)
    elif ended.get("reason") == "OOMKilled":
        row = End("memory", f"its preparation ({name}) used more memory than its limit")
    else:
        row = End("start", f"its preparation ({name}) ended with exit code {code}")
    over = _over(row, str(ended.get("reason") or ""), message)
    return dataclasses.replace(over, message=message, is_unfit=is_unfit)


def _over(row: End, reason: str, message: str) -> PodState:
    return PodState(
        phase="over",
        reason=reason,
        words=f"{row.words}: {message}" if message else row.words,
        cause=row.cause,
        is_disturbance=row.is_disturbance,
    )


def shorten_scheduler(sentence: str) -> str:
    """Return the reason part of the scheduler's message.

    Example:
        >>> shorten_scheduler("0/12 nodes are available: 12 Insufficient nvidia.com/gpu. "
        ...     "preemption: 0/12 nodes are available: 12 No preemption victims found.")
        '0/12 nodes: 12 Insufficient nvidia.com/gpu'
    """
    why = re.split(r"[.,]? (?:preemption|no new claims to deallocate)\b", sentence)[0]
    return why.replace(" nodes are available:", " nodes:").rstrip(". ")


def _condition(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next((it for it in status.get("conditions") or () if it.get("type") == name), {})


def _statuses(status: Mapping[str, Any], key: str = "containerStatuses") -> list[Object]:
    return list(status.get(key) or ())


def _named(statuses: Any, name: str) -> Object:
    return next((it for it in statuses or () if it.get("name") == name), {})

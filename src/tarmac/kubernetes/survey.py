"""The survey of a cluster: a Job on each node whose pod checks the node."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from tarmac.errors import RequestError, TarmacError
from tarmac.files import parse_json
from tarmac.kubernetes.answers import NoAnswer, Object, Refused, Right
from tarmac.kubernetes.events import explain_creation
from tarmac.kubernetes.jobs import explain_job
from tarmac.kubernetes.look import CONTAINER, LABEL, Look, asked_gpus, look_manifest
from tarmac.kubernetes.manifests import role_for
from tarmac.kubernetes.nodes import ClusterNode, read_node
from tarmac.kubernetes.pods import PodState, explain_pod
from tarmac.kubernetes.refusals import explain_refusal
from tarmac.machine import MAX_NODES, NodeFindings, group_alike

if TYPE_CHECKING:
    from tarmac.kubernetes.cluster import Cluster

_RIGHTS = (
    *(Right(verb, "jobs", "batch") for verb in ("create", "get", "delete")),
    Right("list", "pods"),
)

_LOOK_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterFindings(NodeFindings):
    """The findings of a Kubernetes node.

    Attributes:
        node: Node as the cluster reports it.
        python: Python version in the image. Empty: not known.
        tarmac: Tarmac version in the image. Empty: not known.
        driver: NVIDIA driver version. Empty: no driver found.
        gpus: Number of GPUs that a pod sees, by GPU name.
        unseen: Descriptions of the resources that were not checked.
    """

    node: ClusterNode
    python: str = ""
    tarmac: str = ""
    driver: str = ""
    gpus: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unseen: Sequence[str] = ()


def survey_cluster(
    cluster: Cluster, look: Look, *, patience_s: float = 120.0, most: int = MAX_NODES
) -> Sequence[ClusterFindings]:
    """Check a cluster's nodes with a Job on each node, or on one node of each kind.

    Each Job requests all NVIDIA GPUs of its node, so it waits while a GPU is in use. All Jobs are
    deleted before this function returns.

    Args:
        cluster: Cluster with the namespace for the Jobs.
        look: Image, queue, tolerations and other options of the pods.
        patience_s: Seconds to wait for answers. Default 120.
        most: Most nodes to check. With more nodes than that, one node of each kind is checked, of
            at most this many kinds.

    Raises:
        RequestError: The login may not list nodes or create Jobs.
        TarmacError: The cluster does not answer.
    """
    nodes = _nodes(cluster, look)
    _refuse_lacking(cluster)
    here = [node for node in nodes if not node.apart]
    groups = group_alike(
        here, most, kind=lambda node: node.kind, is_usable=lambda node: not node.trouble
    )
    survey = _Survey(cluster, look, patience_s)
    try:
        for node, *_ in groups:
            survey.submit(node)
        pods = survey.wait()
        findings = [
            dataclasses.replace(
                survey.findings(node, pods), alike=tuple(other.name for other in others)
            )
            for node, *others in groups
        ]
    finally:
        survey.clear()
    return findings + [
        ClusterFindings(name=node.name, node=node, state="apart", words=(node.apart,))
        for node in nodes
        if node.apart
    ]


def _nodes(cluster: Cluster, look: Look) -> list[ClusterNode]:
    listed = cluster.list("Node")
    if isinstance(listed, NoAnswer):
        raise TarmacError(listed.words)
    if isinstance(listed, Refused):
        explained = explain_refusal(listed, cluster.namespace)
        raise RequestError(
            f"{cluster.title} does not show its nodes: {explained.words}", hint=explained.hint
        )
    return [
        read_node(
            node,
            selector=look.node_selector,
            tolerations=look.tolerations,
            gpu_resource=look.gpu_resource,
        )
        for node in listed.items
    ]


def _refuse_lacking(cluster: Cluster) -> None:
    missing = cluster.may(*_RIGHTS)
    if isinstance(missing, NoAnswer):
        raise TarmacError(missing.words)
    if missing:
        words = ", ".join(f"{right.verb} {right.resource}" for right in missing)
        raise RequestError(
            f"{cluster.title}: you may not {words} in the namespace {cluster.namespace}",
            hint="Ask an administrator to apply this and to bind it to you:\n"
            f"{role_for(_RIGHTS, cluster.namespace)}",
        )


class _Survey:
    """The Jobs of a survey."""

    def __init__(self, cluster: Cluster, look: Look, patience_s: float) -> None:
        self._cluster, self._look, self._patience_s = cluster, look, patience_s
        self._mark = secrets.token_hex(4)
        self._jobs: dict[str, str] = {}
        self._problems: dict[str, str] = {}

    def submit(self, node: ClusterNode) -> None:
        """Create the Job that checks a node, unless no pod can start there."""
        if node.trouble:
            self._problems[node.name] = node.trouble
            return
        name = f"tarmac-look-{self._mark}-{len(self._jobs)}"
        # Noted before the request: without an answer, the Job may still have been created.
        self._jobs[node.name] = name
        answer = self._cluster.create(
            look_manifest(name, self._mark, node, self._look, self._patience_s)
        )
        if isinstance(answer, NoAnswer):
            self._problems[node.name] = answer.words
        elif isinstance(answer, Refused):
            explained = explain_refusal(answer, self._cluster.namespace)
            self._problems[node.name] = f"its Job is refused: {explained.words}. {explained.hint}"

    def wait(self) -> Mapping[str, Object] | NoAnswer:
        """Wait until all pods are over or the time is up; return the pods by Job name."""
        end = time.monotonic() + self._patience_s
        expected = [job for name, job in self._jobs.items() if name not in self._problems]
        pods: Mapping[str, Object] | NoAnswer = {}
        while expected:
            listed = self._cluster.list("Pod", labels=f"{LABEL}={self._mark}")
            if isinstance(listed, NoAnswer):
                pods = listed
            elif isinstance(listed, Refused):
                words = explain_refusal(listed, self._cluster.namespace).words
                pods = NoAnswer(words, time.time())
            else:
                pods = {_job_of(pod): pod for pod in listed.items}
                if all(_is_settled(pods.get(job)) for job in expected):
                    break
            if time.monotonic() >= end:
                break
            time.sleep(_LOOK_EVERY_S)
        return pods

    def findings(self, node: ClusterNode, pods: Mapping[str, Object] | NoAnswer) -> ClusterFindings:
        """Return the findings of a node."""

        def result(state: Literal["waits", "blind", "failed"], words: str) -> ClusterFindings:
            return ClusterFindings(name=node.name, node=node, state=state, words=(words,))

        if node.name in self._problems:
            return result("failed", self._problems[node.name])
        if isinstance(pods, NoAnswer):
            return result("failed", pods.words)
        job = self._jobs[node.name]
        if job not in pods:
            return result("waits", self._why_no_pod(job))
        state = explain_pod(pods[job], container=CONTAINER)
        if state.phase == "over" and state.cause is None:
            return read_answer(node, state.message)
        words = _words(state)
        if state.phase == "running":
            words = f"its check started, but has not ended within {self._patience_s:g} s"
        return result(_state_of(state), words)

    def _why_no_pod(self, job: str) -> str:
        there = self._cluster.get("Job", job)
        if there is None:
            return "its Job is gone: somebody has deleted it"
        if isinstance(there, NoAnswer):
            return there.words
        if isinstance(there, Refused):
            return explain_refusal(there, self._cluster.namespace).words
        state = explain_job(there)
        if state.words:
            return f"its Job {state.words}" if state.phase == "held" else state.words
        fields = f"involvedObject.kind=Job,involvedObject.name={job}"
        events = self._cluster.list("Event", fields=fields)
        reason = "" if isinstance(events, (Refused, NoAnswer)) else explain_creation(events.items)
        return f"its Job creates no pod: {reason}" if reason else "its Job has created no pod yet"

    def clear(self) -> None:
        """Delete the Jobs and their pods; the cluster removes leftovers after the Job's TTL."""
        for name in self._jobs.values():
            with contextlib.suppress(TarmacError):
                self._cluster.delete("Job", name)


def read_answer(node: ClusterNode, message: str) -> ClusterFindings:
    """Return the findings from a pod's report.

    Args:
        node: Node as the cluster reports it.
        message: Termination message of the pod, as `tarmac.checks.pod_look` writes it.
    """
    try:
        report = parse_json(message)
        words, unseen = [*report["failures"]], [*report["unseen"], *_not_looked_at(node)]
        return ClusterFindings(
            name=node.name,
            node=node,
            state="unseen" if unseen and not words else "looked",
            words=words,
            unseen=unseen,
            python=report["python"],
            tarmac=report["tarmac"],
            driver=report["driver"],
            gpus=report["gpus"],
        )
    except (ValueError, TypeError, KeyError):
        words = [f"its check ended with 0, but its answer cannot be read: {message[:80]!r}"]
        return ClusterFindings(name=node.name, node=node, state="blind", words=words)


def _not_looked_at(node: ClusterNode) -> list[str]:
    requests = asked_gpus(node)
    lines = [
        f"{count} {resource} not looked at: only NVIDIA's GPUs are checked"
        for resource, count in node.gpus.items()
        if resource not in requests
    ]
    return lines + [
        f"pods take turns on its GPUs: {requests[resource]} of {count} {resource} looked at"
        for resource, count in node.gpus.items()
        if resource in requests and requests[resource] < count
    ]


def _state_of(state: PodState) -> Literal["waits", "blind", "failed"]:
    """Return the state of a node whose pod has no report."""
    if state.phase == "running" or (state.phase == "over" and state.cause == "exit"):
        return "blind"
    return "failed" if state.cause else "waits"


def _words(state: PodState) -> str:
    words = state.words if state.words.startswith("its ") else f"its pod {state.words}"
    if state.message and state.message not in words:
        words += f": {' '.join(state.message.split())}"
    if "No module named" in state.message:
        words += "; name an image that has this Tarmac: options.kubernetes.check_image"
    return words


def _job_of(pod: Object) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("batch.kubernetes.io/job-name") or labels.get("job-name") or "")


def _is_settled(pod: Object | None) -> bool:
    """Whether a pod is over or can never start."""
    if pod is None:
        return False
    state = explain_pod(pod, container=CONTAINER)
    return state.phase == "over" or state.limit_s == 0

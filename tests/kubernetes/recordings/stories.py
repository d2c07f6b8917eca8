"""Stories of Jobs, told to a server step by step, and what its watches say of each step.

The pods are on a node that is not there, and each story plays its kubelet: it says how containers
fare, and lets pods go that are asked to end. So every server sees the same, whatever its nodes are.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import httpx
from test_emulator_jobs import job

# What a watch has said of one object: the kind of event, and what of the object is compared.
Event = tuple[str, dict[str, Any]]


class Step(NamedTuple):
    """What is done in a story.

    Attributes:
        deed: A method of ``Teller``.
        given: What it takes.
    """

    deed: str
    given: Any = None


class Story(NamedTuple):
    """A Job, and what becomes of it.

    Attributes:
        spec: Of the Job, beside what ``job`` makes of it.
        steps: In order.
    """

    spec: Mapping[str, Any]
    steps: tuple[Step, ...]


_MADE = Step("create")


def _run(*indexes: int) -> tuple[Step, ...]:
    return tuple(Step("run", index) for index in indexes)


def _end(index: int, code: int) -> Step:
    return Step("end", (index, code))


_ON_3: dict[str, Any] = {"onExitCodes": {"operator": "In", "values": [3]}}
STORIES = {
    "all ends well": Story(
        {"completions": 2, "parallelism": 1},
        (_MADE, *_run(0), _end(0, 0), *_run(1), _end(1, 0)),
    ),
    "an index fails": Story(
        {"completions": 2, "parallelism": 2}, (_MADE, *_run(0, 1), _end(0, 1), _end(1, 0))
    ),
    "too many indexes fail": Story(
        {"completions": 3, "parallelism": 2, "maxFailedIndexes": 0},
        (_MADE, *_run(0, 1), _end(0, 1), Step("let_go", 1)),
    ),
    "an exit code fails the job": Story(
        {
            "completions": 2,
            "parallelism": 2,
            "podFailurePolicy": {"rules": [{"action": "FailJob"} | _ON_3]},
        },
        (_MADE, *_run(0, 1), _end(0, 3), _end(1, 143), Step("let_go", 1)),
    ),
    "a pod is evicted and made again": Story(
        {}, (_MADE, *_run(0), Step("evict", 0), _end(0, 143), Step("let_go", 0), _end(0, 0))
    ),
    "the back-off limit is reached": Story(
        {"backoffLimitPerIndex": None, "backoffLimit": 0}, (_MADE, *_run(0), _end(0, 1))
    ),
    "suspended and resumed": Story(
        {"suspend": True},
        (_MADE, Step("suspend", False), *_run(0), Step("suspend", True), Step("let_go", 0)),
    ),
    "deleted in the background": Story(
        {}, (_MADE, *_run(0), Step("delete", "Background"), Step("let_go", 0))
    ),
    "deleted before its pods": Story(
        {}, (_MADE, *_run(0), Step("delete", "Foreground"), Step("let_go", 0))
    ),
    "deleted without its pods": Story({}, (_MADE, *_run(0), Step("delete", "Orphan"))),
    "forgotten once it is over": Story(
        {"ttlSecondsAfterFinished": 0}, (_MADE, *_run(0), _end(0, 0))
    ),
}


class Teller:
    """Tells a story to a server and hears its watches.

    Args:
        server: A client that may do everything.
        namespace: In which the Job will be.
        story: To be told.
    """

    def __init__(self, server: httpx.Client, namespace: str, story: Story) -> None:
        self._server = server
        self._paths = {
            "jobs": f"/apis/batch/v1/namespaces/{namespace}/jobs",
            "pods": f"/api/v1/namespaces/{namespace}/pods",
        }
        self._at = {what: self._revision(what) for what in self._paths}
        self._names: dict[str, str] = {}
        # Another one each time: a server clears nodes that it has known to be gone for 40 s.
        node = f"not-there-{secrets.token_hex(4)}"
        pod = {"nodeName": node, "terminationGracePeriodSeconds": 30}
        self._job = job("story", "true", **story.spec, pod=pod)
        spec = self._job["spec"]
        if spec["backoffLimitPerIndex"] is None:
            del spec["backoffLimitPerIndex"]

    def do(self, step: Step) -> None:
        """Do what a step says."""
        deed: Callable[..., None] = getattr(self, f"_{step.deed}")
        deed(*(() if step.given is None else (step.given,)))

    def hear(self, what: str, seconds: int) -> Iterator[Event]:
        """Yield what a watch says, from where the last one was left, for some seconds."""
        asked = {"watch": "true", "resourceVersion": self._at[what], "timeoutSeconds": seconds}
        with self._server.stream("GET", self._paths[what], params=asked, timeout=60) as answer:
            for line in answer.iter_lines():
                said = json.loads(line)
                assert said["type"] != "ERROR", said
                self._at[what] = said["object"]["metadata"]["resourceVersion"]
                view = _job_view if what == "jobs" else self._pod_view
                yield said["type"], view(said["object"])

    def _create(self) -> None:
        self._server.post(self._paths["jobs"], json=self._job).raise_for_status()

    def _run(self, index: int) -> None:
        self._say(index, "Running", {"running": {"startedAt": _THEN}})

    def _end(self, how: tuple[int, int]) -> None:
        index, code = how
        ended = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": _THEN,
            "finishedAt": _THEN,
        }
        self._say(index, "Failed" if code else "Succeeded", {"terminated": ended})

    def _let_go(self, index: int) -> None:
        path = f"{self._paths['pods']}/{self._newest(index)['metadata']['name']}"
        self._server.request("DELETE", path, json={"gracePeriodSeconds": 0}).raise_for_status()

    def _evict(self, index: int) -> None:
        name = self._newest(index)["metadata"]["name"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name},
        }
        path = f"{self._paths['pods']}/{name}/eviction"
        self._server.post(path, json=eviction).raise_for_status()

    def _suspend(self, is_to_be: bool) -> None:
        self._server.patch(
            f"{self._paths['jobs']}/story",
            json={"spec": {"suspend": is_to_be}},
            headers={"Content-Type": "application/merge-patch+json"},
        ).raise_for_status()

    def _delete(self, propagation: str) -> None:
        path = f"{self._paths['jobs']}/story"
        body = {"propagationPolicy": propagation}
        self._server.request("DELETE", path, json=body).raise_for_status()

    def _say(self, index: int, phase: str, state: Mapping[str, Any]) -> None:
        pod = self._newest(index)
        is_ready = phase == "Running"
        ready = {"type": "Ready", "status": "True" if is_ready else "False"}
        others = [it for it in pod["status"].get("conditions", ()) if it["type"] != "Ready"]
        container = {
            "name": "main",
            "image": "busybox",
            "imageID": "",
            "ready": is_ready,
            "restartCount": 0,
            "state": state,
        }
        told = {
            "phase": phase,
            "startTime": _THEN,
            "conditions": [*others, ready | {"lastTransitionTime": _THEN}],
            "containerStatuses": [container],
        }
        path = f"{self._paths['pods']}/{pod['metadata']['name']}/status"
        whole = {**pod, "status": pod["status"] | told}
        self._server.put(path, json=whole).raise_for_status()

    def _newest(self, index: int) -> dict[str, Any]:
        found = self._server.get(self._paths["pods"]).raise_for_status().json()["items"]
        pods = [
            it | {"apiVersion": "v1", "kind": "Pod"}
            for it in found
            if it["metadata"]["annotations"][_INDEX] == str(index)
        ]
        return max(pods, key=lambda it: int(it["metadata"]["resourceVersion"]))

    def _revision(self, what: str) -> str:
        revision: str = (
            self._server.get(self._paths[what])
            .raise_for_status()
            .json()["metadata"]["resourceVersion"]
        )
        return revision

    def _pod_view(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        metadata, status = pod["metadata"], pod["status"]
        name, index = metadata["name"], metadata["annotations"][_INDEX]
        before = sum(it.startswith(f"{index}.") for it in self._names.values())
        return {
            "pod": self._names.setdefault(name, f"{index}.{before + 1}"),
            "failures": metadata["annotations"].get(_FAILURES),
            "finalizers": metadata.get("finalizers", []),
            "owners": [it["name"] for it in metadata.get("ownerReferences", ())],
            "grace": metadata.get("deletionGracePeriodSeconds"),
            "phase": status["phase"],
            "conditions": _conditions(status),
        }


# All that happens in a story happened then.
_THEN = "2026-01-01T00:00:00Z"
_INDEX = "batch.kubernetes.io/job-completion-index"
_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_POD = re.compile(r"pod [\w-]+/(story-\d+)-\w+")
_COUNTS = ("active", "ready", "terminating", "succeeded", "failed")


def _job_view(seen: Mapping[str, Any]) -> dict[str, Any]:
    metadata, status = seen["metadata"], seen.get("status", {})
    return {
        "generation": metadata["generation"],
        "finalizers": metadata.get("finalizers", []),
        "is deleted": "deletionTimestamp" in metadata,
        "has begun": "startTime" in status,
        "is complete": "completionTime" in status,
        # A server leaves out what is zero, or does not.
        **{count: status.get(count, 0) for count in _COUNTS},
        "completed": status.get("completedIndexes", ""),
        "failed indexes": status.get("failedIndexes", ""),
        "conditions": _conditions(status),
    }


def _conditions(status: Mapping[str, Any]) -> list[list[str]]:
    return sorted(
        [it["type"], it["status"], it.get("reason", ""), _POD.sub(r"pod \1", it.get("message", ""))]
        for it in status.get("conditions") or ()
    )

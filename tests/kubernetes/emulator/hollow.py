"""Nodes whose pods run nothing: for what thousands of pods cost those who watch them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .kinds import NODE, POD
from .objects import Objects
from .store import Change, Thing, now


class Outcome(NamedTuple):
    """How a pod of a hollow node ends.

    Attributes:
        code: Its exit code.
        message: What it leaves in its termination log.
        reason: Why it ended, where that is not its own program: OOMKilled.
    """

    code: int = 0
    message: str = ""
    reason: str = ""


# Takes a pod that runs, or that is told to end; None: it goes on, until it is looked at again.
Ends = Callable[[Thing], Outcome | None]


class HollowNodes:
    """Answers for the pods of its nodes, at once: a controller."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._ends: dict[str, Ends] = {}

    def add(
        self, name: str, capacity: dict[str, Any], ends: Ends, *, kubelet_port: int | None = None
    ) -> None:
        """Add a node whose pods end as ``ends`` says, without a process.

        Args:
            name: The node's.
            capacity: Beside much of all.
            ends: Says how.
            kubelet_port: Where its pods' logs are asked for, on this machine; None for nowhere.
        """
        status: dict[str, Any] = {"conditions": []}
        if kubelet_port is not None:
            status["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": kubelet_port}}
        amounts = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"} | capacity
        self._ends[name] = ends
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": status | {"capacity": amounts, "allocatable": amounts},
        }
        self._objects.create(NODE, "", node)

    def lose(self, name: str) -> None:
        """Answer no more for the pods of a node, whose power is lost."""
        del self._ends[name]

    def concerns(self, change: Change) -> list[tuple[str, str]]:
        """Return the pod that changed, if it is on a hollow node."""
        pod = change.after
        if change.kind is not POD or pod is None or pod["spec"].get("nodeName") not in self._ends:
            return []
        return [(pod["metadata"]["namespace"], pod["metadata"]["name"])]

    def look(self, token: tuple[str, str]) -> float | None:
        """Begin a pod, end it, or let it go."""
        with self._objects.store.changed:
            pod = self._objects.store.get(POD, *token)
            if pod is None or pod["spec"].get("nodeName") not in self._ends:
                return None
            is_deleted = "deletionTimestamp" in pod["metadata"]
            if pod["status"]["phase"] == "Running":
                outcome = self._ends[pod["spec"]["nodeName"]](pod)
                if outcome is None:
                    return None
                self._end(pod, outcome)
            if is_deleted:
                if pod["metadata"].get("deletionGracePeriodSeconds"):
                    self._objects.delete(POD, *token, grace_s=0)
            elif pod["status"]["phase"] == "Pending":
                state = {"running": {"startedAt": now()}}
                self._say(pod, "Running", state)
        return None

    def _end(self, pod: Thing, outcome: Outcome) -> None:
        ended = {
            "exitCode": outcome.code,
            "reason": outcome.reason or ("Error" if outcome.code else "Completed"),
            "message": outcome.message,
            "startedAt": pod["status"]["startTime"],
            "finishedAt": now(),
        }
        phase = "Failed" if outcome.code else "Succeeded"
        self._say(pod, phase, {"terminated": ended})

    def _say(self, pod: Thing, phase: str, state: Thing) -> None:
        told = {
            "phase": phase,
            "startTime": pod["status"].get("startTime", now()),
            "containerStatuses": [
                {
                    "name": it["name"],
                    "image": it["image"],
                    "imageID": "",
                    "ready": phase == "Running",
                    "restartCount": 0,
                    "state": state,
                }
                for it in pod["spec"]["containers"]
            ],
        }
        self._objects.set_status(POD, pod, pod["status"] | told)


def succeed(_: Thing) -> Outcome:
    """End every pod well, without a word."""
    return Outcome()

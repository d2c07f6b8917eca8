"""A scheduler that puts each pod on the first node that has room and may have it."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .events import tell
from .kinds import NODE, POD
from .objects import Objects
from .quantities import Amounts, pod_requests, total
from .selection import matches_labels
from .store import Change, Thing, now

_QUEUE = ("", "queue")
_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
_SELECTOR = "node(s) didn't match Pod's node affinity/selector"


class Scheduler:
    """Binds pods to nodes, or says why it cannot."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pending: dict[str, Thing] = {}
        self._used: dict[str, dict[str, Amounts]] = collections.defaultdict(dict)

    def concerns(self, change: Change) -> list[tuple[str, str]]:
        """Return that pods are to be looked at, where a pod or a node changed."""
        thing = change.after or change.before or {}
        if change.kind is NODE:
            return [_QUEUE] if self._pending else []
        if change.kind is not POD:
            return []
        uid, node = thing["metadata"]["uid"], thing["spec"].get("nodeName")
        is_over = change.after is None or thing["status"].get("phase") in ("Succeeded", "Failed")
        if node:
            self._pending.pop(uid, None)
            if is_over:
                self._used[node].pop(uid, None)
                return [_QUEUE] if self._pending else []
            if uid not in self._used[node]:
                self._used[node][uid] = pod_requests(thing["spec"])
            return []
        if (
            is_over
            or "deletionTimestamp" in thing["metadata"]
            or thing["spec"].get("schedulingGates")
        ):
            self._pending.pop(uid, None)
            return []
        is_new = uid not in self._pending
        self._pending[uid] = thing
        return [_QUEUE] if is_new else []

    def look(self, token: tuple[str, str]) -> float | None:
        """Bind what can be bound."""
        store = self._objects.store
        with store.changed:
            nodes = store.list(NODE)
            hopeless: dict[str, str] = {}
            for pod in sorted(
                self._pending.values(), key=lambda it: -it["spec"].get("priority", 0)
            ):
                # Pods of one shape have the same fate: no need to try each of a thousand.
                shape = repr(
                    [pod["spec"].get(key) for key in ("containers", "nodeSelector", "affinity")]
                )
                if shape not in hopeless:
                    words = self._place(pod, nodes)
                    if words is None:
                        continue
                    hopeless[shape] = words
                self._refuse(pod, hopeless[shape])
        return None

    def _place(self, pod: Thing, nodes: list[Thing]) -> str | None:
        """Bind a pod; return why not where it cannot be."""
        wanted = pod_requests(pod["spec"])
        wanted["pods"] = Decimal(1)
        why: collections.Counter[str] = collections.Counter()
        lasting = 0
        for node in nodes:
            name = node["metadata"]["name"]
            reason = _unsuitable(pod["spec"], node)
            if reason is not None:
                why[reason] += 1
                lasting += 1
                continue
            if self._has_own_kind(pod, name):
                why[_ANTI_AFFINITY] += 1
                continue
            room = total([node["status"]["allocatable"]])
            used = self._used[name]
            lacking = [
                "Too many pods" if what == "pods" else f"Insufficient {what}"
                for what, much in sorted(wanted.items())
                if much
                and (
                    len(used)
                    if what == "pods"
                    else sum(it.get(what, Decimal(0)) for it in used.values())
                )
                + much
                > room.get(what, Decimal(0))
            ]
            if not lacking:
                self._bind(pod, name)
                return None
            why.update(lacking)
        count = len(nodes)
        if not count:
            return "no nodes available to schedule pods"
        listed = ", ".join(f"{number} {reason}" for reason, number in sorted(why.items()))
        parts = []
        if count - lasting:
            parts.append(f"{count - lasting} No preemption victims found for incoming pod")
        if lasting:
            parts.append(f"{lasting} Preemption is not helpful for scheduling")
        return (
            f"0/{count} nodes are available: {listed}. no new claims to deallocate, preemption: "
            f"0/{count} nodes are available: {', '.join(sorted(parts))}."
        )

    def _has_own_kind(self, pod: Thing, node: str) -> bool:
        """Whether a node has a pod that this one is not to be with: by host, and by labels."""
        affinity = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        others = self._objects.store.list(POD, pod["metadata"]["namespace"]) if terms else ()
        return any(
            matches_labels(term["labelSelector"].get("matchLabels"), it["metadata"]["labels"])
            for term in terms
            if term["topologyKey"] == "kubernetes.io/hostname"
            for it in others
            if it["spec"].get("nodeName") == node
            and it["status"].get("phase") not in ("Succeeded", "Failed")
        )

    def _bind(self, pod: Thing, node: str) -> None:
        metadata = pod["metadata"]
        there = self._objects.store.get(POD, metadata["namespace"], metadata["name"])
        if there is None:
            return
        bound = {**there, "spec": there["spec"] | {"nodeName": node}}
        self._objects.store.put(POD, bound | {"status": _scheduled(there["status"], "True")})
        name = f"{metadata['namespace']}/{metadata['name']}"
        message = f"Successfully assigned {name} to {node}"
        tell(self._objects, there, "Scheduled", message, kind="Normal", by="default-scheduler")

    def _refuse(self, pod: Thing, words: str) -> None:
        metadata = pod["metadata"]
        there = self._objects.store.get(POD, metadata["namespace"], metadata["name"])
        known = [
            it.get("message") for it in (there or {}).get("status", {}).get("conditions") or ()
        ]
        if there is None or words in known:
            return
        status = _scheduled(there["status"], "False", "Unschedulable", words)
        self._objects.set_status(POD, there, status)
        tell(self._objects, there, "FailedScheduling", words, by="default-scheduler")


def _scheduled(status: Thing, is_so: str, reason: str = "", message: str = "") -> Thing:
    condition = {"type": "PodScheduled", "status": is_so, "lastTransitionTime": now()}
    condition |= {"reason": reason, "message": message} if reason else {}
    others = [it for it in status.get("conditions") or () if it["type"] != "PodScheduled"]
    return {**status, "conditions": [*others, condition]}


def _unsuitable(spec: Mapping[str, Any], node: Thing) -> str | None:
    """Return why a node is none for a pod whatever runs there."""
    labels = node["metadata"].get("labels") or {}
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and not any(
            tolerates(it, taint) for it in spec.get("tolerations") or ()
        ):
            told = f"{taint['key']}: {taint.get('value', '')}"
            return f"node(s) had untolerated taint {{{told}}}"
    if not matches_labels(spec.get("nodeSelector"), labels):
        return _SELECTOR
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity and not any(
        all(_meets(it, labels) for it in term.get("matchExpressions") or ())
        and all(
            _meets(it, {"metadata.name": node["metadata"]["name"]})
            for it in term.get("matchFields") or ()
        )
        for term in affinity["nodeSelectorTerms"]
    ):
        return _SELECTOR
    return None


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration lets a pod onto a node with a taint."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    is_any = toleration.get("operator") == "Exists"
    return is_any or toleration.get("value", "") == taint.get("value", "")


def _meets(  # noqa: PLR0911 -- one for each operator
    wanted: Mapping[str, Any], labels: Mapping[str, str]
) -> bool:
    value, values = labels.get(wanted["key"]), wanted.get("values") or []
    match wanted["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not value.lstrip("-").isdigit():
        return False
    if wanted["operator"] == "Gt":
        return int(value) > int(values[0])
    return int(value) < int(values[0])

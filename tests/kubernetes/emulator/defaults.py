"""What the real server fills in where a manifest leaves it out, as far as anyone here reads it.

From ``pkg/apis/{core,batch}/v1/defaults.go``, the strategies of pods and jobs, and the admission
plug-ins DefaultTolerationSeconds and ServiceAccount.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .kinds import JOB, NAMESPACE, POD, SERVICE, Kind
from .store import Thing

_LIVE = {"httpGet", "tcpSocket", "exec"}


def with_defaults(kind: Kind, thing: Mapping[str, Any]) -> Thing:
    """Return a new object as the server stores it, which has a uid already."""
    filled = copy.deepcopy(dict(thing))
    if kind is JOB:
        _job(filled)
    elif kind is POD:
        _pod_spec(filled.setdefault("spec", {}))
        _requests(filled["spec"])
        filled["status"] = {"phase": "Pending", "qosClass": _quality(filled["spec"])}
        account = filled["spec"].setdefault("serviceAccountName", "default")
        filled["spec"].setdefault("serviceAccount", account)
        filled["spec"].setdefault("enableServiceLinks", True)
        filled["spec"].setdefault("priority", 0)
        filled["spec"].setdefault("preemptionPolicy", "PreemptLowerPriority")
        filled["spec"].setdefault("tolerations", [])
        for name in ("not-ready", "unreachable"):
            key = f"node.kubernetes.io/{name}"
            if not any(it.get("key") in (key, None) for it in filled["spec"]["tolerations"]):
                filled["spec"]["tolerations"].append(
                    {
                        "key": key,
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 300,
                    }
                )
    elif kind is NAMESPACE:
        filled["status"] = {"phase": "Active"}
        filled["spec"] = {"finalizers": ["kubernetes"]}
    elif kind is SERVICE:
        filled["spec"].setdefault("type", "ClusterIP")
        filled["spec"].setdefault("sessionAffinity", "None")
    if kind.plural == "secrets":
        filled.setdefault("type", "Opaque")
        _merge_string_data(filled)
    return filled


def as_stored(kind: Kind, thing: Thing) -> Thing:
    """Return a new object that is valid, with what is filled in as it is stored."""
    if kind is JOB and not thing["metadata"].get("labels"):
        labels = dict(thing["spec"]["template"]["metadata"]["labels"])
        return {**thing, "metadata": {**thing["metadata"], "labels": labels}}
    return thing


def _merge_string_data(secret: Thing) -> None:
    import base64

    for key, value in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()


def _job(job: Thing) -> None:
    spec = job.setdefault("spec", {})
    template = spec.setdefault("template", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    has_policy = spec.get("podFailurePolicy") is not None
    spec.setdefault("podReplacementPolicy", "Failed" if has_policy else "TerminatingOrFailed")
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    uid, name = job["metadata"]["uid"], job["metadata"].get("name", "")
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    if not job["metadata"].get("labels") and labels:
        job["metadata"]["labels"] = dict(labels)
    if not spec.setdefault("manualSelector", False):
        spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
        for prefix in ("", "batch.kubernetes.io/"):
            labels[f"{prefix}controller-uid"] = uid
            labels[f"{prefix}job-name"] = name
    _pod_spec(template.setdefault("spec", {}))
    job["status"] = {}


def _pod_spec(spec: Thing) -> None:
    for key, value in {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
    }.items():
        spec.setdefault(key, value)
    if "serviceAccountName" in spec:
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        image = container.get("image") or ""
        tag = image.rpartition("/")[2].partition(":")[2]
        is_latest = tag in ("", "latest") and "@" not in image
        container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")
        container.setdefault("resources", {})
        for variable in container.get("env") or ():
            if "fieldRef" in (variable.get("valueFrom") or {}):
                variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")


def _volume(volume: Thing) -> None:
    for kind in ("secret", "configMap", "projected"):
        if isinstance(volume.get(kind), dict):
            volume[kind].setdefault("defaultMode", 0o644)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")
    if isinstance(volume.get("projected"), dict):
        for source in volume["projected"].get("sources") or ():
            if "serviceAccountToken" in source:
                source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}


def _requests(spec: Thing) -> None:
    """Have a pod ask for its limits; a Job's template stays as it is (SetDefaults_Pod)."""
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        resources = container["resources"]
        for name, amount in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)


def _quality(spec: Mapping[str, Any]) -> str:
    every = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    plain = [
        {
            side: {
                k: v for k, v in (it["resources"].get(side) or {}).items() if k in ("cpu", "memory")
            }
            for side in ("limits", "requests")
        }
        for it in every
    ]
    if all(not it["limits"] and not it["requests"] for it in plain):
        return "BestEffort"
    full = all(len(it["limits"]) == 2 and it["limits"] == it["requests"] for it in plain)
    return "Guaranteed" if full else "Burstable"

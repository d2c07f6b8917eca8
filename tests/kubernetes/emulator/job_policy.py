"""What a pod's failure means to its job: ``podFailurePolicy``, first matching rule first."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any


class Verdict(enum.Enum):
    """What the end of a pod does to its job."""

    SUCCEEDED = "it counts as a completion"
    COUNT = "it counts against the limits"
    IGNORE = "it is made again, and counts against nothing"
    FAIL_INDEX = "its index has failed"
    FAIL_JOB = "the job has failed"


_ACTIONS = {
    "Ignore": Verdict.IGNORE,
    "Count": Verdict.COUNT,
    "FailIndex": Verdict.FAIL_INDEX,
    "FailJob": Verdict.FAIL_JOB,
}


def verdict(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> Verdict:
    """Return what a pod that is over means to its job."""
    status = pod["status"]
    if status.get("phase") == "Succeeded":
        return Verdict.SUCCEEDED
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if _matches_codes(rule.get("onExitCodes"), status) or _matches_conditions(
            rule.get("onPodConditions"), status
        ):
            return _ACTIONS[rule["action"]]
    return Verdict.COUNT


def _matches_codes(pattern: Mapping[str, Any] | None, status: Mapping[str, Any]) -> bool:
    if pattern is None:
        return False
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in every:
        ended = container["state"].get("terminated")
        if ended is None or ended["exitCode"] == 0:
            continue
        if pattern.get("containerName") not in (None, container["name"]):
            continue
        if (ended["exitCode"] in pattern["values"]) == (pattern["operator"] == "In"):
            return True
    return False


def _matches_conditions(patterns: Any, status: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == pattern["type"] and condition["status"] == pattern["status"]
        for pattern in patterns or ()
        for condition in status.get("conditions") or ()
    )

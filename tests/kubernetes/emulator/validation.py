"""Which objects the server refuses for what they say: 422, with all that is wrong at once."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import Cause
from .fields import forbidden_change, invalid_value, too_long
from .job_rules import check_job, check_last_name, check_selector
from .kinds import CONFIG_MAP, JOB, POD, SECRET, Kind
from .metadata_rules import DATA_KEY, DATA_KEY_WORDS, check_labels, check_metadata
from .pod_rules import check_pod_spec

# Of all values of one object (MaxSecretSize; ConfigMaps have the same).
_DATA_BYTES = 1024 * 1024
# ValidateJobSpecUpdate; of a template, only scheduling may change while the job is suspended.
_FIXED = ("selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex")


def checked_new(kind: Kind, thing: Mapping[str, Any]) -> list[Cause]:
    """Return what is wrong with a new object, which has its defaults."""
    causes = list(check_metadata(kind, thing["metadata"]))
    if kind is JOB:
        template = thing["spec"]["template"]
        causes += check_selector(thing["spec"])
        causes += check_job(thing)
        causes += check_labels(template.get("metadata") or {}, "spec.template")
        causes += check_pod_spec(template["spec"], "spec.template.spec")
        causes += check_last_name(thing)
    elif kind is POD:
        causes += check_pod_spec(thing["spec"], "spec")
    elif kind in (CONFIG_MAP, SECRET):
        causes += _data(thing)
    # What is wrong with several fields in the same words is said once.
    return list(dict.fromkeys(causes))


def checked_update(
    kind: Kind, old: Mapping[str, Any], new: Mapping[str, Any], subresource: str
) -> list[Cause]:
    """Return what is wrong with a change."""
    if subresource == "status":
        return []
    causes = list(check_labels(new["metadata"], "metadata"))
    if kind is JOB:
        spec, before = new["spec"], old["spec"]
        if spec.get("completions") not in (before.get("completions"), spec["parallelism"]):
            words = "can only be modified in tandem with spec.parallelism"
            causes.append(invalid_value("spec.completions", spec.get("completions"), words))
        for name in _FIXED:
            if spec.get(name) != before.get(name):
                if name == "template" and before.get("suspend"):
                    continue
                # A server writes out what a whole object has become; that is left out here.
                value = "" if isinstance(spec.get(name), dict) else spec.get(name)
                causes.append(invalid_value(f"spec.{name}", value, "field is immutable"))
    elif kind is POD and new["spec"] != old["spec"]:
        # ValidatePodUpdate
        words = (
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
            "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to "
            "be set to 1 if it was previously negative)"
        )
        causes.append(forbidden_change("spec", words))
    elif kind in (CONFIG_MAP, SECRET):
        causes += _data(new)
        if old.get("immutable") and new.get("data") != old.get("data"):
            causes.append(forbidden_change("data", "field is immutable when `immutable` is set"))
    return causes


def _data(thing: Mapping[str, Any]) -> Iterator[Cause]:
    # ValidateSecret, ValidateConfigMap
    size = 0
    for part in ("data", "binaryData"):
        for key, value in (thing.get(part) or {}).items():
            is_text = part == "data" and thing["kind"] == "ConfigMap"
            size += len(value.encode() if is_text else base64.b64decode(value))
            if not DATA_KEY.fullmatch(key):
                yield invalid_value(f"{part}[{key}]", key, DATA_KEY_WORDS)
    if size > _DATA_BYTES:
        yield too_long("data" if thing["kind"] == "Secret" else "[]", _DATA_BYTES)

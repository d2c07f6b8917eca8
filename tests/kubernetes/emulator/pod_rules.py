"""Which pods and pod templates the server refuses, beyond their schema.

From ``pkg/apis/core/validation/validation.go``; each rule names its function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import Cause
from .fields import duplicate, invalid_value, missing, required, unsupported
from .metadata_rules import (
    DATA_KEY,
    DATA_KEY_WORDS,
    check_labels,
    label_problem,
    subdomain_problem,
)
from .quantities import amount, written

_OWN = ("cpu", "memory", "ephemeral-storage", "hugepages-")
# In the order in which they are looked at.
_SOURCES = (
    *("emptyDir", "hostPath", "secret", "nfs", "persistentVolumeClaim", "downwardAPI"),
    *("configMap", "projected", "csi", "ephemeral", "image"),
)
_FIELDS = re.compile(
    r"metadata\.(name|namespace|uid|(labels|annotations)(\[.+\])?)"
    r"|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"
)
_PULL = ["Always", "IfNotPresent", "Never"]


def check_pod_spec(spec: Mapping[str, Any], place: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod's spec that has its defaults."""
    volumes = spec.get("volumes") or []
    seen: set[str] = set()
    for number, volume in enumerate(volumes):
        where = f"{place}.volumes[{number}]"
        yield from _name(volume.get("name"), f"{where}.name", seen)
        # validateVolumeSource
        for kind in [it for it in _SOURCES if it in volume][1:]:
            words = "Forbidden: may not specify more than 1 volume type"
            yield Cause(f"{where}.{kind}", "FieldValueForbidden", words)
    # validateContainers
    if not spec.get("containers"):
        yield required(f"{place}.containers")
    names: set[str] = set()
    mounted = {it.get("name") for it in volumes}
    for part in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(part) or []):
            where = f"{place}.{part}[{number}]"
            yield from _name(container.get("name"), f"{where}.name", names)
            yield from _container(container, where, mounted)
            # validateContainers and validateInitContainers, restartPolicy
            again = container.get("restartPolicy")
            if part == "initContainers" and again not in (None, "Always"):
                yield unsupported(f"{where}.restartPolicy", again, ["Always"])
    # ValidatePodSpec
    for name in ("hostname", "subdomain"):
        if spec.get(name) and (problem := label_problem(spec[name])):
            yield invalid_value(f"{place}.{name}", spec[name], problem)
    account = spec.get("serviceAccountName") or "default"
    if problem := subdomain_problem(account):
        yield invalid_value(f"{place}.serviceAccountName", account, problem)
    yield from check_labels({"labels": spec.get("nodeSelector")}, place, "nodeSelector")
    yield from _tolerations(spec, place)


def _name(name: str | None, place: str, seen: set[str]) -> Iterator[Cause]:
    # ValidateDNS1123Label and field.Duplicate, of volumes and of containers
    if not name:
        yield required(place)
    elif problem := label_problem(name):
        yield invalid_value(place, name, problem)
    elif name in seen:
        yield duplicate(place, name)
    seen.add(name or "")


def _container(container: Mapping[str, Any], place: str, volumes: set[Any]) -> Iterator[Cause]:
    # validateContainerCommon
    if not container.get("image"):
        yield required(f"{place}.image")
    elif container["image"] != container["image"].strip():
        words = "must not have leading or trailing whitespace"
        yield invalid_value(f"{place}.image", container["image"], words)
    if container["terminationMessagePolicy"] not in ("File", "FallbackToLogsOnError"):
        policy = container["terminationMessagePolicy"]
        yield unsupported(
            f"{place}.terminationMessagePolicy", policy, ["FallbackToLogsOnError", "File"]
        )
    if container["imagePullPolicy"] not in _PULL:
        yield unsupported(f"{place}.imagePullPolicy", container["imagePullPolicy"], _PULL)
    # ValidateVolumeMounts
    paths: set[str] = set()
    for number, mount in enumerate(container.get("volumeMounts") or []):
        where = f"{place}.volumeMounts[{number}]"
        if not mount.get("name"):
            yield required(f"{where}.name")
        elif mount["name"] not in volumes:
            yield missing(f"{where}.name", mount["name"])
        if not mount.get("mountPath"):
            yield required(f"{where}.mountPath")
        elif mount["mountPath"] in paths:
            yield invalid_value(f"{where}.mountPath", mount["mountPath"], "must be unique")
        paths.add(mount.get("mountPath", ""))
    # ValidateEnv
    for number, variable in enumerate(container.get("env") or []):
        yield from _variable(variable, f"{place}.env[{number}]")
    yield from _resources(container.get("resources") or {}, f"{place}.resources")


def _variable(variable: Mapping[str, Any], place: str) -> Iterator[Cause]:
    name = variable.get("name")
    if not name:
        yield required(f"{place}.name")
    elif "=" in name:
        words = (
            "a valid environment variable name must consist only of printable ASCII characters "
            "other than '='"
        )
        yield invalid_value(f"{place}.name", name, words)
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        words = "may not be specified when `value` is not empty"
        yield invalid_value(f"{place}.valueFrom", "", words)
    if len(source) != 1:
        words = "may not have more than one field specified at a time"
        yield invalid_value(f"{place}.valueFrom", "", words)
    for kind in ("secretKeyRef", "configMapKeyRef"):
        if kind in source:
            yield from _reference(source[kind], f"{place}.valueFrom.{kind}")
    path = source.get("fieldRef", {}).get("fieldPath", "metadata.name")
    if not _FIELDS.fullmatch(path):
        words = f"error converting fieldPath: field label not supported: {path}"
        yield invalid_value(f"{place}.valueFrom.fieldRef.fieldPath", path, words)


def _reference(named: Mapping[str, Any], place: str) -> Iterator[Cause]:
    # validateSecretKeySelector, validateConfigMapKeySelector
    name, key = named.get("name", ""), named.get("key", "")
    if name and (problem := subdomain_problem(name)):
        yield invalid_value(f"{place}.name", name, problem)
    if not key:
        yield required(f"{place}.key")
    elif not DATA_KEY.fullmatch(key):
        yield invalid_value(f"{place}.key", key, DATA_KEY_WORDS)


def _resources(resources: Mapping[str, Any], place: str) -> Iterator[Cause]:
    # ValidateResourceRequirements
    sides = {side: resources.get(side) or {} for side in ("limits", "requests")}
    for side, amounts in sides.items():
        for name, text in amounts.items():
            much = amount(text)
            if much < 0:
                yield invalid_value(
                    f"{place}.{side}[{name}]", text, "must be greater than or equal to 0"
                )
            is_own = name.startswith(_OWN)
            if not is_own and "/" not in name:
                words = "must be a standard resource type or fully qualified"
                yield invalid_value(f"{place}.{side}[{name}]", name, words)
            if not is_own and much != much.to_integral():
                given = written(much, str(text))
                yield invalid_value(f"{place}.{side}[{name}]", given, "must be an integer")
    for name, text in sides["requests"].items():
        limit = sides["limits"].get(name)
        if limit is None:
            if not name.startswith(_OWN):
                words = "Limit must be set for non overcommitable resources"
                yield required(f"{place}.limits", words)
        elif not name.startswith(_OWN) and amount(text) != amount(limit):
            words = f"must be equal to {name} limit of {limit}"
            yield invalid_value(f"{place}.requests", text, words)
        elif amount(text) > amount(limit):
            words = f"must be less than or equal to {name} limit of {limit}"
            yield invalid_value(f"{place}.requests", text, words)


def _tolerations(spec: Mapping[str, Any], place: str) -> Iterator[Cause]:
    # ValidateTolerations
    for number, toleration in enumerate(spec.get("tolerations") or []):
        where = f"{place}.tolerations[{number}]"
        operator = toleration.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            yield unsupported(f"{where}.operator", operator, ["Equal", "Exists"])
        if not toleration.get("key") and operator != "Exists":
            words = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            yield invalid_value(f"{where}.operator", operator, words)
        if toleration.get("value") and operator == "Exists":
            words = "value must be empty when `operator` is 'Exists'"
            yield invalid_value(f"{where}.operator", toleration["value"], words)
        effect = toleration.get("effect") or "NoSchedule"
        effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
        if effect not in effects:
            yield unsupported(f"{where}.effect", effect, effects)

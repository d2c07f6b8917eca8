"""The user's part of tasks' pods, ``options.kubernetes.pod``: its allowed fields and its merge.

Tarmac refuses fields that it sets itself, and names the key of the job file to use instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from tarmac.kubernetes import Fault, faults_of, is_gpu, merged

CONTAINER = "task"
CHECK = "check"

# Without a volume, a pod reads the agent and its elements from CHUNK, and writes to RUN_DIRECTORY.
CHUNK = "/tarmac/chunk"
RUN_DIRECTORY = "/tarmac/run"

_SETS = "Tarmac sets it itself: "

_SPEC: Mapping[str, str] = {
    "restartPolicy": "a pod runs once; `retries` of the task start another",
    "activeDeadlineSeconds": "write `timeout` of the task",
    "terminationGracePeriodSeconds": "a program has 10 s from TERM to KILL",
    **dict.fromkeys(
        ("hostname", "subdomain", "setHostnameAsFQDN", "hostnameOverride"),
        "pods of several nodes find each other by that name",
    ),
    "ephemeralContainers": "a pod cannot start with these; `kubectl debug` adds them",
}
_OF_CONTAINER: Mapping[str, str] = {
    "image": "write `environment: {image: ...}` or `options.kubernetes.image`",
    "imagePullPolicy": "write `environment: {pull: ...}`",
    "command": "write `command` of the task",
    "args": "write `command` of the task",
    "restartPolicy": "a program runs once; `retries` of the task start it again",
    "terminationMessagePath": "Tarmac reads the task's result there",
    "terminationMessagePolicy": "Tarmac reads the task's result there",
}
_PREFIXES = ("tarmac.dev/", "batch.kubernetes.io/", "jobset.sigs.k8s.io/")
_LABELS: Mapping[str, str] = {
    **dict.fromkeys(("job-name", "controller-uid"), "Tarmac finds the pods of a Job by it"),
    "kueue.x-k8s.io/queue-name": "write `options.kubernetes.queue`",
    "kueue.x-k8s.io/priority-class": "write `options.kubernetes.queue_priority`",
}
_VOLUMES = ("run", "chunk", "shm")


def check_overlay(pod: Mapping[str, Any], taken: Sequence[str], at: Sequence[str]) -> None:
    """Refuse fields that an overlay must not set.

    Args:
        pod: Part of a pod's template, from the ``pod`` of the options.
        taken: Paths where a volume of the options is mounted.
        at: Path of the overlay below the options.

    Raises:
        ValidationError: A field is invalid or refused; each fault has its path below the options.
    """
    faults = [*faults_of(pod)]
    # Only a well-formed overlay can be searched for reserved fields.
    faults = faults or [*_reserved(pod, taken)]
    if faults:
        raise ValidationError.from_exception_data(
            "pod",
            [
                InitErrorDetails(
                    # A parameter, as pydantic would read the message itself as a template.
                    type=PydanticCustomError("pod_overlay", "{words}", {"words": fault.message}),
                    loc=(*at, *fault.path),
                    input=_value_at(pod, fault.path),
                )
                for fault in faults
            ],
        )


def overlaid(template: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod's template merged with an overlay; the affinities of both hold."""
    result = merged(template, overlay)
    ours = template["spec"].get("affinity") or {}
    theirs = ((overlay.get("spec") or {}).get("affinity")) or {}
    if ours and theirs:
        result["spec"] = {**result["spec"], "affinity": _both(ours, theirs)}
    return result


def _both(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two affinities so that both hold; of several node terms, one is enough."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    result: dict[str, Any] = {**ours, **theirs}
    for name in ours.keys() & theirs.keys():
        mine, other = ours[name][required], theirs[name].get(required)
        if other is None:
            demanded = mine
        elif name == "nodeAffinity":
            wanted: Sequence[Mapping[str, Any]] = other.get("nodeSelectorTerms") or ({},)
            terms = [
                {
                    **term,
                    "matchExpressions": [
                        *(term.get("matchExpressions") or ()),
                        *our_term["matchExpressions"],
                    ],
                }
                for term in wanted
                for our_term in mine["nodeSelectorTerms"]
            ]
            demanded = {"nodeSelectorTerms": terms}
        else:
            demanded = [*other, *mine]
        result[name] = {**theirs[name], required: demanded}
    return result


def _reserved(pod: Mapping[str, Any], taken: Sequence[str]) -> Iterator[Fault]:
    for path in _nulls(pod, ()):
        if "securityContext" not in path:
            yield Fault(path, "is empty: only securityContext can be removed from the pod")
    yield from _of_metadata(pod.get("metadata") or {})
    yield from _of_spec(pod.get("spec") or {}, taken)


def _of_metadata(about: Mapping[str, Any]) -> Iterator[Fault]:
    for key in about:
        if key not in ("labels", "annotations"):
            yield Fault(
                ("metadata", key), f"{_SETS}only labels and annotations can be added to metadata"
            )
    for kind in ("labels", "annotations"):
        for name in about.get(kind) or {}:
            if str(name).startswith(_PREFIXES) or name in _LABELS:
                why = _LABELS.get(name, "Tarmac finds the pods of a run by it")
                yield Fault(("metadata", kind, name), f"{_SETS}{why}")


def _of_spec(spec: Mapping[str, Any], taken: Sequence[str]) -> Iterator[Fault]:
    for key, why in _SPEC.items():
        if key in spec:
            yield Fault(("spec", key), f"{_SETS}{why}")
    for number, volume in enumerate(spec.get("volumes") or ()):
        if volume["name"] in _VOLUMES:
            names = ", ".join(_VOLUMES)
            words = f"{_SETS}{names} are its own volumes; choose another name"
            yield Fault(("spec", "volumes", number, "name"), words)
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(kind) or ()):
            place = ("spec", kind, number)
            if kind == "containers" and container["name"] != CONTAINER:
                yield Fault(
                    (*place, "name"),
                    f"a task's pod has one container, {CONTAINER!r}; run others beside it as "
                    "initContainers with restartPolicy: Always",
                )
            elif container["name"] in (CONTAINER, CHECK):
                yield from _of_container(container, place, taken)


def _of_container(
    container: Mapping[str, Any], place: tuple[str | int, ...], taken: Sequence[str]
) -> Iterator[Fault]:
    for key, why in _OF_CONTAINER.items():
        if key in container:
            yield Fault((*place, key), f"{_SETS}{why}")
    resources = container.get("resources") or {}
    for side in ("limits", "requests"):
        for name in resources.get(side) or {}:
            path = (*place, "resources", side, name)
            if is_gpu(str(name)):
                yield Fault(path, f"{_SETS}write `resources: {{gpus: ...}}` of the task")
            elif (side, name) in (("limits", "memory"), ("requests", "cpu")):
                key = "memory" if name == "memory" else "cpus"
                yield Fault(path, f"{_SETS}write `resources: {{{key}: ...}}` of the task")
    for number, variable in enumerate(container.get("env") or ()):
        if variable["name"].startswith("TARMAC_"):
            words = f"{_SETS}it reserves variable names that begin with TARMAC_"
            yield Fault((*place, "env", number, "name"), words)
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        path = mount["mountPath"].rstrip("/")
        if path in (*taken, CHUNK, RUN_DIRECTORY):
            words = f"{_SETS}the run's directory is mounted there; choose another path"
            yield Fault((*place, "volumeMounts", number, "mountPath"), words)


def _nulls(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _nulls(part, (*path, key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _nulls(part, (*path, number))


def _value_at(pod: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        pod = pod[part]
    return pod

"""HKube's algorithm definitions.

Sources, all of kube-HPC/hkube at 261d3d06: the fields and their rules from
core/openapi-spec/swagger/components/schemas/algorithms/algorithm.yaml and
core/api-server/lib/validation; units from kube-HPC/units-converter.hkube, lib/converter.js; the
command line's form from kube-HPC/hkubectl at 34c2c9a, commands/store/algorithms/applyImpl.js.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from typing import TYPE_CHECKING, Any

from tarmac.errors import RequestError
from tarmac.jobs import Job, Secret
from tarmac.jobs.documents import Document, Problem, escape, refuse, show_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.jobs.documents import Place

__all__ = ["left_out_for_hkube", "looks_like_hkube", "read_hkube", "write_hkube"]

_NAME = re.compile(r"[a-z0-9][-a-z0-9\\.]*[a-z0-9]")
_UNITS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
    "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "m": 1e-3,
}  # fmt: skip
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_LEAST_MEMORY = 4 * 2**20

# What HKube takes where a definition says nothing (api-server's and task-executor's defaults).
_DEFAULT_CPU, _DEFAULT_MEMORY = 0.1, 256 * 2**20

_REFERENCES = ("fieldRef", "configMapKeyRef", "resourceFieldRef", "secretKeyRef")

_NUMBERS = {"cpu": 0.0, "gpu": 0.0}
_COUNTS = ("minHotWorkers", "maxWorkers", "quotaGuarantee")

# Fields of the schema that have no meaning for one task on this machine.
_WITHOUT_EFFECT = (
    *("type", "kind", "env", "applyCpuLimits", "reservedMemory", "workerCustomResources"),
    *("minHotWorkers", "maxWorkers", "quotaGuarantee", "options", "workerEnv", "nodeSelector"),
    *("mounts", "volumes", "volumeMounts", "sideCars", "kaiObject", "entryPoint", "baseImage"),
    *("dependencyInstallCmd", "gitRepository", "labels", "annotations", "stateType"),
    *("downloadFileExt", "securityContext", "version", "created", "modified", "fileInfo"),
    *("auditTrail", "userInfo"),
)
_MEANT = ("name", "algorithmImage", "cpu", "mem", "gpu", "algorithmEnv")
_KNOWN = (*_MEANT, *_WITHOUT_EFFECT)

# hkubectl's form, by where it goes.
_NESTED = {
    ("resources", "cpu"): "cpu",
    ("resources", "gpu"): "gpu",
    ("resources", "mem"): "mem",
    ("code", "entryPoint"): "entryPoint",
}


@dataclasses.dataclass(frozen=True)
class _Field:
    value: Any
    path: tuple[str | int, ...]


def looks_like_hkube(value: Any) -> bool:
    """Whether a document holds algorithm definitions: one, or a list of them."""
    first = value[0] if isinstance(value, list) and value else value
    if not isinstance(first, dict):
        return False
    own = {"algorithmImage", "algorithmEnv", "workerEnv", "minHotWorkers"}
    is_hkubectl = "image" in first and isinstance(first.get("resources"), dict)
    return bool(own & first.keys()) or (is_hkubectl and "command" not in first)


def read_hkube(document: Document) -> tuple[list[Job], list[str]]:
    """Read algorithm definitions: one, or a list.

    Args:
        document: JSON or YAML, in the form of HKube's API or of hkubectl.

    Returns:
        A job for each, and notes: what is read otherwise than today's HKube would, and what has no
        effect here. The definitions themselves are kept in the jobs.

    Raises:
        RequestError: HKube would refuse it too; every problem is said.
    """
    value = document.value
    parts = [((n,), v) for n, v in enumerate(value)] if isinstance(value, list) else [((), value)]
    problems: list[Problem] = []
    notes: list[str] = []
    jobs = []
    for path, definition in parts:
        reader = _Reader(document, path, problems, notes)
        job = reader.read(definition)
        if job is not None:
            jobs.append(job)
    if problems:
        raise refuse(document, problems)
    return jobs, notes


def write_hkube(job: Job) -> dict[str, Any]:
    """Return the algorithm definition of a job; one that was read gives back what it was read from.

    Args:
        job: Of one task, in a container.

    Raises:
        RequestError: It has several tasks.
    """
    kept = job.kept.get("hkube")
    if isinstance(kept, dict):
        return dict(kept)
    if len(job.tasks) > 1 or job.after_all is not None:
        raise RequestError(f"{job.name} has several tasks, and an algorithm is one")
    definition: dict[str, Any] = {"name": job.name}
    (task,) = job.tasks or (job,)
    image = getattr(task.environment, "image", None)
    if image is not None:
        definition["algorithmImage"] = image
    definition["cpu"] = task.resources.cpus
    memory = task.resources.memory
    if memory is not None:
        definition["mem"] = f"{-(-memory // 2**20)}Mi"
    if task.resources.gpus:
        definition["gpu"] = task.resources.gpus
    env: dict[str, Any] = dict(task.env)
    for name, secret in task.secrets.items():
        if secret.name is not None:
            env[name] = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
    if env:
        definition["algorithmEnv"] = env
    return definition


def left_out_for_hkube(job: Job) -> list[str]:
    """Return what a job says and its definition cannot: a program, files, limits."""
    if isinstance(job.kept.get("hkube"), dict):
        return []
    (task,) = job.tasks or (job,)
    names = ("command", "workload", "inputs", "outputs", "timeout", "retries", "sweep")
    found = [name for name in names if name in task.model_fields_set and getattr(task, name)]
    return found + [name for name, secret in task.secrets.items() if secret.name is None]


class _Reader:
    """Reads one definition."""

    def __init__(
        self,
        document: Document,
        path: tuple[str | int, ...],
        problems: list[Problem],
        notes: list[str],
    ) -> None:
        self._document = document
        self._path = path
        self._problems = problems
        self._notes = notes

    def read(self, definition: Any) -> Job | None:
        before = len(self._problems)
        if not isinstance(definition, dict):
            self._refuse(self._path, f"{definition!r} is no algorithm definition")
            return None
        fields = dict(self._flatten(definition))
        name = self._name(fields.get("name"))
        image = self._image(fields.get("algorithmImage"))
        cpu = self._number(fields.get("cpu"), "cpu")
        gpu = self._number(fields.get("gpu"), "gpu")
        memory = self._memory(fields.get("mem"))
        env, secrets = self._variables(fields.get("algorithmEnv"))
        self._variables(fields.get("workerEnv"))
        for count in _COUNTS:
            self._count(fields.get(count), count)
        self._note_the_rest(fields, name)
        if len(self._problems) > before or name is None:
            return None
        environment = {"kind": "container", "image": image} if image else {"kind": "system"}
        return Job.model_validate(
            {
                "name": name,
                "environment": environment,
                "command": None if image else ["true"],
                "resources": {
                    "cpus": cpu or _DEFAULT_CPU,
                    "memory": memory or _DEFAULT_MEMORY,
                    "gpus": gpu or 0,
                },
                "env": env,
                "secrets": secrets,
                "kept": {"hkube": definition},
            }
        )

    def _flatten(self, definition: Mapping[str, Any]) -> Iterator[tuple[str, _Field]]:
        """Yield the fields by their names in HKube's API, those of hkubectl's form too."""
        for key, value in definition.items():
            path = (*self._path, key)
            if key in ("resources", "code") and isinstance(value, dict):
                for inner, part in value.items():
                    yield _NESTED.get((key, inner), f"{key}.{inner}"), _Field(part, (*path, inner))
            else:
                yield "algorithmImage" if key == "image" else key, _Field(value, path)

    def _name(self, field: _Field | None) -> str | None:
        if field is None:
            self._refuse(self._path, "name is missing")
            return None
        # HKube's validator takes other scalars for their text.
        text = str(field.value)
        if not _NAME.fullmatch(text) or not 1 <= len(text) <= 32:
            self._refuse(
                field.path,
                f"{text!r}: algorithm name must contain only lower-case alphanumeric, dash or dot, "
                "2 to 32 characters, alphanumeric at both ends",
            )
            return None
        return text.replace("\\", "-")

    def _image(self, field: _Field | None) -> str | None:
        if field is None or field.value in (None, ""):
            return None
        if not isinstance(field.value, str) or re.search(r"\s", field.value):
            self._refuse(field.path, f"{field.value!r}: an image's name has no blanks")
            return None
        return field.value

    def _number(self, field: _Field | None, name: str) -> float | None:
        if field is None or field.value is None:
            return None
        try:
            number = float(field.value)
        except (TypeError, ValueError):
            number = -1.0
        if not number >= _NUMBERS[name]:
            hint = " (HKube takes cores, not thousandths)" if name == "cpu" else ""
            self._refuse(field.path, f"{field.value!r}: expected a number of at least 0{hint}")
            return None
        return number

    def _count(self, field: _Field | None, name: str) -> None:
        if field is None or (field.value is None and name != "minHotWorkers"):
            return
        value = field.value
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if not isinstance(value, (int, float)) or value < 0 or value != int(value):
            self._refuse(field.path, f"{field.value!r}: expected a whole number of at least 0")

    def _memory(self, field: _Field | None) -> int | None:
        if field is None or field.value is None:
            return None
        value = field.value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
            place = self._document.place_of(field.path)
            self._notes.append(
                f"{self._where(place)}: {show_path(field.path)}: {value:g} is read as {value:g}Mi, "
                "as HKube stored it in 2019; today's HKube refuses a number without a unit"
            )
            return int(value * 2**20)
        match = _MEMORY.fullmatch(str(value).strip())
        if match is None or match[2] not in _UNITS:
            units = ", ".join(_UNITS)
            self._refuse(field.path, f"{value!r}: memory unit must be one of {units}")
            return None
        amount = float(match[1]) * _UNITS[match[2]]
        if amount < _LEAST_MEMORY:
            self._refuse(field.path, f"{value!r}: memory must be at least 4 Mi")
            return None
        return int(amount)

    def _variables(self, field: _Field | None) -> tuple[dict[str, str], dict[str, Secret]]:
        env: dict[str, str] = {}
        secrets: dict[str, Secret] = {}
        if field is None or field.value is None:
            return env, secrets
        if not isinstance(field.value, dict):
            self._refuse(field.path, f"{field.value!r}: expected variables and their values")
            return env, secrets
        for name, value in field.value.items():
            path = (*field.path, name)
            if isinstance(value, dict):
                secret = self._reference(value, path)
                if secret is not None:
                    secrets[name] = secret
            elif isinstance(value, bool):
                env[name] = "true" if value else "false"
            elif isinstance(value, list):
                self._refuse(path, "a list is no value of a variable")
            elif value is not None:
                env[name] = escape(str(value))
        return env, secrets

    def _reference(self, value: Mapping[str, Any], path: tuple[str | int, ...]) -> Secret | None:
        kind = next(iter(value), None)
        if kind not in _REFERENCES:
            near = difflib.get_close_matches(str(kind), _REFERENCES, n=1)
            hint = f"  did you mean {near[0]!r}?" if near else ""
            self._refuse(path, f"expected one of {', '.join(_REFERENCES)} as the first key", hint)
            return None
        inner = value[kind]
        if kind == "secretKeyRef" and isinstance(inner, dict):
            name, key = inner.get("name"), inner.get("key")
            if isinstance(name, str) and isinstance(key, str):
                return Secret(name=name, key=key)
        place = self._document.place_of(path)
        self._notes.append(
            f"{self._where(place)}: {show_path(path)}: a {kind} is known in a cluster only; the "
            "variable is not set here"
        )
        return None

    def _note_the_rest(self, fields: Mapping[str, _Field], name: str | None) -> None:
        idle = [
            key for key in fields if key in _WITHOUT_EFFECT and fields[key].value not in (None, {})
        ]
        if idle:
            self._notes.append(f"{name}: without effect off HKube, and kept: {', '.join(idle)}")
        for key, field in fields.items():
            if key not in _KNOWN:
                near = difflib.get_close_matches(key, _KNOWN, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                place = self._document.place_of(field.path)
                self._notes.append(
                    f"{self._where(place)}: {show_path(field.path)} is no field of HKube's, and is "
                    f"kept{hint}"
                )

    def _refuse(self, path: Sequence[str | int], message: str, hint: str = "") -> None:
        place = self._document.place_of(path)
        self._problems.append(Problem(place, show_path(path), message, hint))

    def _where(self, place: Place) -> str:
        return f"{self._document.name}:{place.line}:{place.column}"

"""HKube's algorithm definitions, read into jobs and written from them.

What a definition's fields mean: kube-HPC/hkube at 261d3d06, core/task-executor/lib/reconcile; the
command line's form: kube-HPC/hkubectl at 34c2c9a, commands/store/algorithms/applyImpl.js.
"""

from __future__ import annotations

import copy
import dataclasses
import difflib
import itertools
import json
import reprlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tarmac.documents import Document, Problem, refuse, show_path
from tarmac.errors import RequestError
from tarmac.formats.format import Format, Reading, Written
from tarmac.formats.hkube.definition import Definition, text_of_scalar
from tarmac.formats.original import formats_of, is_changed, original_of, with_original
from tarmac.jobs import Job, Secret, escape, plan_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.jobs import Task

__all__ = [
    "HKUBE",
    "left_out_for_hkube",
    "looks_like_hkube",
    "notes_for_hkube",
    "read_hkube",
    "write_hkube",
]

_Path = tuple[str | int, ...]

_NAME = "hkube"

# What HKube takes where a definition says nothing (api-server's and task-executor's defaults).
_DEFAULT_CPU, _DEFAULT_MEMORY = 0.1, 256 * 2**20
_LEAST_MEMORY_MI = 4
_MOST_NOTES = 20

_REQUESTS = (
    "cpu and mem are what HKube sets aside for an algorithm, which may take twice as much there; "
    f"here they are limits, by default {_DEFAULT_CPU} CPUs and {_DEFAULT_MEMORY // 2**20} MiB: "
    "write more where an algorithm needs it"
)

_MEANT = ("name", "algorithmImage", "cpu", "mem", "gpu", "algorithmEnv")
_KNOWN = tuple(field.alias or name for name, field in Definition.model_fields.items())

# Keys that HKube's definitions have and a job of Tarmac's has not, and the other way round.
_OWN = frozenset(_KNOWN) - Job.model_fields.keys() | {"code"}
_NOT_OWN = Job.model_fields.keys() - {*_KNOWN, "resources"}
_SURE = frozenset(("algorithmImage", "algorithmEnv", "workerEnv", "minHotWorkers", "gitRepository"))

# hkubectl's form, by where it goes in HKube's API; the API's own key goes over it.
_ELSEWHERE: dict[_Path, str] = {
    ("image",): "algorithmImage",
    ("image", "algorithmImage"): "algorithmImage",
    ("resources", "cpu"): "cpu",
    ("resources", "gpu"): "gpu",
    ("resources", "mem"): "mem",
    ("code", "entryPoint"): "entryPoint",
}
_HOLDERS = ("image", "resources", "code")

# What HKube builds an image from, where a definition names none.
_BUILT_FROM = ("gitRepository", "code.path", "fileInfo", "entryPoint", "baseImage")

# A definition's key for what a job calls otherwise.
_KEY_OF: dict[_Path, str] = {
    ("name",): "name",
    ("environment",): "algorithmImage",
    ("resources", "cpus"): "cpu",
    ("resources", "memory"): "mem",
    ("resources", "gpus"): "gpu",
    ("env",): "algorithmEnv",
    ("secrets",): "algorithmEnv",
}


@dataclasses.dataclass(frozen=True)
class _Field:
    value: Any
    path: _Path


def looks_like_hkube(value: Any) -> bool:
    """Whether a document is of HKube's: algorithm definitions, one or a list, or a pipeline."""
    parts = value if isinstance(value, list) else [value]
    return any(_is_pipeline(part) or _is_definition(part) for part in parts)


def _is_pipeline(value: Any) -> bool:
    if not isinstance(value, dict) or "command" in value:
        return False
    return isinstance(value.get("nodes"), list) or "flowInput" in value


def _is_definition(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if _SURE & value.keys():
        return True
    resources = value.get("resources")
    has_own = (
        bool(_OWN & value.keys())
        or ("image" in value and isinstance(resources, dict))
        or (isinstance(resources, dict) and bool({"cpu", "mem", "gpu"} & resources.keys()))
    )
    return has_own and not _NOT_OWN & value.keys()


def read_hkube(document: Document) -> tuple[list[Job], list[str]]:
    """Read algorithm definitions: one, or a list.

    Args:
        document: JSON or YAML, in the form of HKube's API or of hkubectl.

    Returns:
        A job for each, and notes: what is read otherwise than today's HKube would, and what has no
        effect here. The definitions themselves are kept in the jobs.

    Raises:
        RequestError: HKube would refuse it too, or it is what cannot be run here: a pipeline, an
            algorithm whose image HKube builds. Every problem is said.
    """
    value = document.value
    parts: list[tuple[_Path, Any]] = (
        [((n,), v) for n, v in enumerate(value)] if isinstance(value, list) else [((), value)]
    )
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
    return jobs, [*notes, f"{document.name}: {_REQUESTS}"]


def write_hkube(job: Job) -> dict[str, Any]:
    """Return the algorithm definition of a job.

    A job that was read from a definition gives it back; where the job was changed since, the
    definition with those changes.

    Args:
        job: Of one task, in a container.

    Raises:
        RequestError: It has several tasks or no image, or HKube would refuse its definition.
    """
    original = original_of(job, _NAME)
    if original is not None and _is_as_read(job):
        return copy.deepcopy(original)
    definition = _definition_of(job)
    read = _read_again(original)
    if original is not None and read is not None:
        definition = _changed(original, _definition_of(read), definition)
    try:
        Definition.model_validate({name: field.value for name, field in _flatten(definition)})
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False)
        raise RequestError(
            f"{job.name} cannot be an algorithm of HKube's: {show_path(first['loc'])}: "
            f"{_message(first)}",
            hint="Change the job file, and convert it again",
        ) from error
    return definition


def notes_for_hkube(job: Job) -> list[str]:
    """Return what somebody who converts a job to HKube's form should know, in sentences.

    Args:
        job: As for `write_hkube`.

    Raises:
        RequestError: It has several tasks.
    """
    notes = []
    if _is_as_read(job):
        return []
    if original_of(job, _NAME) is not None:
        notes.append(
            f"{job.name}: the job was changed since it was read from HKube's definition, and is "
            "written with the changes"
        )
    lost = left_out_for_hkube(job)
    if lost:
        notes.append(f"{job.name}: left out for HKube: {', '.join(lost)}")
    memory = _only_task(job).resources.memory
    if memory is None:
        notes.append(f"{job.name}: no memory is said, for which HKube takes 256Mi")
    elif memory < _LEAST_MEMORY_MI * 2**20:
        notes.append(f"{job.name}: mem is {_LEAST_MEMORY_MI}Mi, the least that HKube takes")
    return notes


def left_out_for_hkube(job: Job) -> list[str]:
    """Return the names of what a job says and its definition cannot: a program, files, limits.

    Raises:
        RequestError: It has several tasks.
    """
    if _is_as_read(job):
        return []
    task = _only_task(job)
    (spec,) = job.tasks or (job,)
    program = "workload" if spec.workload is not None else "command"
    said = {
        program: task.command,
        "inputs": task.inputs,
        "outputs": task.outputs,
        "timeout": task.timeout_s,
        "retries": task.retries.count,
        "sweep": task.parameters,
        "priority": task.priority,
        "gpu_memory": task.resources.gpu_memory,
        "shm": task.resources.shm,
    }
    if task.environment.kind == "container":
        plain = type(task.environment)(image=task.environment.image)
        said |= {
            name: (value,)
            for name, value in dict(task.environment).items()
            if value != getattr(plain, name)
        }
    found = [name for name, value in said.items() if value]
    found += [name for name, secret in task.secrets.items() if secret.name is None]
    return found + [f"what is stored for {name}" for name in formats_of(job) if name != _NAME]


def _is_as_read(job: Job) -> bool:
    """Whether a job says what the definition does that it was read from."""
    original = original_of(job, _NAME)
    if original is None:
        return False
    changed = is_changed(job)
    if changed is None:
        read = _read_again(original)
        return read is not None and read == job.model_copy(update={"original": read.original})
    return not changed


def _read_again(original: dict[str, Any] | None) -> Job | None:
    """Return the job that a stored definition is read as; None where it is no definition."""
    if original is None:
        return None
    try:
        (job,), _ = read_hkube(Document("original", original))
    except RequestError:
        return None
    return job


def _only_task(job: Job) -> Task:
    tasks = list(itertools.islice(plan_tasks(job, Path()), 2))
    if len(tasks) != 1:
        raise RequestError(f"{job.name} has several tasks, and an algorithm is one")
    return tasks[0]


def _definition_of(job: Job) -> dict[str, Any]:
    task = _only_task(job)
    if task.environment.kind != "container":
        raise RequestError(
            f"{job.name} has no image, and HKube's algorithms are images",
            hint="Give it one: environment: {image: NAME}",
        )
    definition: dict[str, Any] = {"name": job.name, "algorithmImage": task.environment.image}
    definition["cpu"] = task.resources.cpus
    memory = task.resources.memory
    if memory is not None:
        definition["mem"] = f"{max(_LEAST_MEMORY_MI, -(-memory // 2**20))}Mi"
    if task.resources.gpus:
        definition["gpu"] = task.resources.gpus
    env: dict[str, Any] = dict(task.env)
    for name, secret in task.secrets.items():
        if secret.name is not None:
            env[name] = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
    if env:
        definition["algorithmEnv"] = env
    return definition


def _changed(
    original: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a stored definition with what differs between two written ones."""
    definition = copy.deepcopy(original)
    fields = dict(_flatten(definition))
    for key in _MEANT:
        if before.get(key) == after.get(key):
            continue
        path = fields[key].path if key in fields else (key,)
        if key == "algorithmEnv" and isinstance(_at(definition, path), dict):
            # What only a cluster knows is in neither, and stays.
            _put_differences(_at(definition, path), before.get(key, {}), after.get(key, {}))
        else:
            _put(_at(definition, path[:-1]), path[-1], after.get(key))
    return definition


def _put_differences(
    target: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            _put(target, name, after.get(name))


def _put(target: Any, key: str | int, value: Any) -> None:
    if value is None:
        target.pop(key, None)
    else:
        target[key] = value


def _at(value: Any, path: _Path) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _flatten(definition: Mapping[str, Any], path: _Path = ()) -> Iterator[tuple[str, _Field]]:
    """Yield a definition's fields by their names in HKube's API, those of hkubectl's form too."""
    for key, value in definition.items():
        if key not in _HOLDERS or not isinstance(value, dict):
            name = _elsewhere((key,), definition)
            yield name, _Field(value, (*path, key))
            continue
        for inner, part in value.items():
            yield _elsewhere((key, inner), definition), _Field(part, (*path, key, inner))


def _elsewhere(path: _Path, definition: Mapping[str, Any]) -> str:
    name = _ELSEWHERE.get(path)
    return show_path(path) if name is None or name in definition else name


def _message(found: Any) -> str:
    """Return what is wrong, from one of Pydantic's errors."""
    if found["type"] == "missing":
        return "is missing"
    message = str(found["msg"]).removeprefix("Value error, ")
    value = found.get("input")
    if isinstance(value, (str, int, float, bool)) or value is None:
        return f"{reprlib.repr(value)}: {message}"
    return message


class _Reader:
    """Reads one definition."""

    def __init__(
        self, document: Document, path: _Path, problems: list[Problem], notes: list[str]
    ) -> None:
        self._document = document
        self._path = path
        self._problems = problems
        self._notes = notes

    def read(self, value: Any) -> Job | None:
        if not isinstance(value, dict):
            self._refuse(self._path, f"{value!r} is no algorithm definition")
            return None
        if _is_pipeline(value):
            key = "nodes" if "nodes" in value else "flowInput"
            self._refuse((*self._path, key), "this is an HKube pipeline: not run here yet")
            return None
        fields = dict(_flatten(value, self._path))
        definition = self._validate(fields)
        self._refuse_without_image(fields)
        if definition is None or not definition.algorithm_image:
            return None
        env, secrets = self._variables(fields.get("algorithmEnv"))
        self._note_what_is_read_otherwise(fields, definition)
        self._note_the_rest(fields, definition.name)
        content = {
            "name": definition.name.replace("\\", "-"),
            "environment": {"kind": "container", "image": definition.algorithm_image},
            "resources": {
                "cpus": definition.cpu or _DEFAULT_CPU,
                "memory": _DEFAULT_MEMORY if definition.mem is None else int(definition.mem),
                "gpus": definition.gpu or 0,
            },
            "env": env,
            "secrets": secrets,
        }
        try:
            return with_original(Job.model_validate(content), _NAME, value)
        except ValidationError as error:
            for found in error.errors(include_url=False):
                path = self._path_of(found, fields)
                self._refuse(path, f"cannot be run here: {_message(found)}")
            return None

    def _validate(self, fields: Mapping[str, _Field]) -> Definition | None:
        try:
            return Definition.model_validate({name: field.value for name, field in fields.items()})
        except ValidationError as error:
            for found in error.errors(include_url=False):
                key, *rest = found["loc"]
                start = fields[str(key)].path if key in fields else (*self._path, key)
                self._refuse((*start, *rest), _message(found))
            return None

    def _path_of(self, found: Any, fields: Mapping[str, _Field]) -> _Path:
        """Return where in the definition is what a job does not take."""
        location = tuple(found["loc"])
        keys = (_KEY_OF.get(location[:length]) for length in (2, 1))
        field = fields.get(next((key for key in keys if key is not None), ""))
        if field is None:
            return self._path
        variable = next(
            (name for name in _names(field.value) if f"{name!r} is no name" in found["msg"]), None
        )
        return field.path if variable is None else (*field.path, variable)

    def _refuse_without_image(self, fields: Mapping[str, _Field]) -> None:
        image = fields.get("algorithmImage")
        if image is not None and image.value not in (None, ""):
            return
        source = next((name for name in _BUILT_FROM if name in fields), None)
        if source is None:
            self._refuse(self._path, "algorithmImage is missing: the image that is to be run")
        else:
            self._refuse(
                fields[source].path,
                "HKube builds this algorithm's image from its code, which is not done here: give "
                "the image as algorithmImage",
            )

    def _variables(self, field: _Field | None) -> tuple[dict[str, str], dict[str, Secret]]:
        env: dict[str, str] = {}
        secrets: dict[str, Secret] = {}
        if field is None or not isinstance(field.value, dict):
            return env, secrets
        for name, value in field.value.items():
            path = (*field.path, name)
            if isinstance(value, dict):
                secret = self._reference(value, path)
                if secret is not None:
                    secrets[name] = secret
            elif value is not None:
                env[name] = escape(self._text(value, path))
        return env, secrets

    def _text(self, value: Any, path: _Path) -> str:
        written = self._document.texts.get(path, "")
        if isinstance(value, bool) and written.lower() not in ("", "true", "false"):
            # HKube's reader of YAML takes yes and no for texts.
            return written
        return text_of_scalar(value)

    def _reference(self, value: Mapping[str, Any], path: _Path) -> Secret | None:
        kind, inner = next(iter(value.items()))
        if kind == "secretKeyRef" and isinstance(inner, dict):
            name, key = inner.get("name"), inner.get("key")
            if isinstance(name, str) and name and isinstance(key, str):
                return Secret(name=name, key=key)
        self._note(path, f"a {kind} is known in a cluster only; the variable is not set here")
        return None

    def _note_what_is_read_otherwise(
        self, fields: Mapping[str, _Field], definition: Definition
    ) -> None:
        memory = fields.get("mem")
        if memory is not None and not isinstance(memory.value, str):
            shown = f"{memory.value:g}"
            self._note(
                memory.path,
                f"{shown} is read as {shown}Mi, as HKube stored it in 2019; today's HKube refuses "
                "a number without a unit",
            )
        if definition.cpu == 0:
            path = fields["cpu"].path
            self._note(path, f"0 sets nothing aside in HKube; here {_DEFAULT_CPU} is taken")

    def _note_the_rest(self, fields: Mapping[str, _Field], name: str) -> None:
        idle = [
            key
            for key, field in fields.items()
            if key in _KNOWN and key not in _MEANT and field.value not in (None, {})
        ]
        if idle:
            place = self._document.place_of(self._path)
            self._notes.append(
                f"{self._document.name}:{place.line}:{place.column}: {name}: without effect off "
                f"HKube, and kept: {', '.join(idle)}"
            )
        unknown = [(key, field) for key, field in fields.items() if key not in _KNOWN]
        # Finding the nearest name takes long, and nobody reads more of them.
        for key, field in unknown[:_MOST_NOTES]:
            near = difflib.get_close_matches(key, _KNOWN, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self._note(field.path, f"is no field of HKube's, and is kept{hint}", separator="")
        if len(unknown) > _MOST_NOTES:
            more = f"{len(unknown) - _MOST_NOTES:,} more of its keys are no fields of HKube's"
            self._note(unknown[_MOST_NOTES][1].path, f"and {more}, and are kept", separator="")

    def _note(self, path: _Path, message: str, *, separator: str = ":") -> None:
        place = self._document.place_of(path)
        where = f"{self._document.name}:{place.line}:{place.column}"
        self._notes.append(f"{where}: {show_path(path)}{separator} {message}")

    def _refuse(self, path: Sequence[str | int], message: str) -> None:
        place = self._document.place_of(path)
        self._problems.append(Problem(place, show_path(path), message))


def _names(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _read(documents: Sequence[Document], environment: Mapping[str, str]) -> Reading:
    del environment
    (document,) = documents
    jobs, notes = read_hkube(document)
    return Reading(_NAME, jobs, notes)


def _write(jobs: Sequence[Job], directory: Path) -> Written:
    del directory
    for job in jobs:
        if job.refusals:
            first, *rest = job.refusals
            raise RequestError(
                f"{job.name} cannot be run here, nor by HKube: {first}",
                hint="\n".join(rest) or None,
            )
    definitions = [write_hkube(job) for job in jobs]
    value = definitions[0] if len(definitions) == 1 else definitions
    notes = [note for job in jobs for note in notes_for_hkube(job)]
    return Written(f"{json.dumps(value, indent=2)}\n", notes)


HKUBE = Format(name=_NAME, title="HKube", looks_like=looks_like_hkube, read=_read, write=_write)

"""Algorithm definitions written from jobs, with notes on fields that they cannot express."""

from __future__ import annotations

import copy
import itertools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tarmac.documents import Document, show_path
from tarmac.errors import RequestError
from tarmac.formats.hkube.definition import Definition
from tarmac.formats.hkube.fields import LEAST_MEMORY_MI, MEANT, NAME, Path, flatten, message
from tarmac.formats.hkube.pipeline_reading import read_pipeline
from tarmac.formats.hkube.reading import read_hkube
from tarmac.formats.original import formats_of, is_changed, original_of
from tarmac.jobs import Job, Task, plan_tasks

# Keys of options.tarmac that are a job's keys too.
_OWN = ("command", "environment", "inputs")


def write_hkube(job: Job) -> dict[str, Any]:
    """Return the algorithm definition of a job.

    A job that was read from a definition returns that definition, with the changes to the job
    since then.

    Args:
        job: Job with exactly one task, which runs in a container.

    Raises:
        RequestError: The job has several tasks or no image, or HKube would refuse the definition.
    """
    original = original_of(job, NAME)
    if original is not None and _is_as_read(job):
        return copy.deepcopy(original)
    definition = _definition_of(job)
    read = _read_again(original)
    if original is not None and read is not None:
        definition = _changed(original, _definition_of(read), definition)
    try:
        Definition.model_validate({name: field.value for name, field in flatten(definition)})
    except ValidationError as error:
        (first, *_) = error.errors(include_url=False)
        raise RequestError(
            f"{job.name} cannot be an algorithm of HKube's: {show_path(first['loc'])}: "
            f"{message(first)}",
            hint="Change the job file, and convert it again",
        ) from error
    return definition


def write_pipeline(job: Job) -> dict[str, Any]:
    """Return the pipeline of a job, or its original request, without the definitions it names.

    Args:
        job: Job with ``pipeline`` set; any other job is refused.

    Raises:
        RequestError: The job has no pipeline, or HKube would refuse the pipeline.
    """
    if job.pipeline is None:
        raise RequestError(f"{job.name} has no pipeline")
    original = original_of(job, NAME)
    if original is not None and not is_changed(job):
        return copy.deepcopy(original)
    if "nodes" in job.pipeline:
        read_pipeline(job.pipeline)
    return copy.deepcopy(job.pipeline)


def notes_for_hkube(job: Job) -> list[str]:
    """Return notes for the user on the conversion of a job to HKube's form.

    Args:
        job: Job with a pipeline, or with exactly one task.

    Raises:
        RequestError: The job has several tasks.
    """
    notes = []
    if job.pipeline is not None:
        number = len(job.algorithms)
        note = f"{job.name}: left out are {number} definitions, which HKube stores apart"
        return [note] if number else []
    if _is_as_read(job):
        return []
    if original_of(job, NAME) is not None:
        notes.append(
            f"{job.name}: the job was changed since it was read from HKube's definition, and is "
            "written with the changes"
        )
    lost = left_out_for_hkube(job)
    if lost:
        notes.append(f"{job.name}: left out for HKube: {', '.join(lost)}")
    memory = _only_task(job).resources.memory
    if memory is None:
        notes.append(f"{job.name}: no memory is set, so HKube uses 256Mi")
    elif memory < LEAST_MEMORY_MI * 2**20:
        notes.append(f"{job.name}: mem is {LEAST_MEMORY_MI}Mi, the least that HKube takes")
    return notes


def left_out_for_hkube(job: Job) -> list[str]:
    """Return the names of a job's fields that its definition cannot express, such as ``outputs``.

    Raises:
        RequestError: The job has several tasks.
    """
    if _is_as_read(job):
        return []
    task = _only_task(job)
    fields = {
        "command": () if _workload_of(job) else task.command,
        "inputs": task.inputs,
        "outputs": task.outputs,
        "timeout": task.timeout_s,
        "retries": task.retries.count,
        "sweep": task.parameters,
        "priority": task.priority,
        "gpu_memory": task.resources.gpu_memory,
        "gpus.type": task.resources.gpu_type,
        "shm": task.resources.shm,
    }
    if task.environment.kind == "container" and not _says_what_runs(job):
        plain = type(task.environment)(image=task.environment.image)
        fields |= {
            name: (value,)
            for name, value in dict(task.environment).items()
            if value != getattr(plain, name)
        }
    kept = _OWN if _says_what_runs(job) else ()
    names = [name for name, value in fields.items() if value and name not in kept]
    names += [name for name, secret in task.secrets.items() if secret.name is None]
    return names + [f"what is stored for {name}" for name in formats_of(job) if name != NAME]


def _is_as_read(job: Job) -> bool:
    """Return whether a job was read from a definition and is unchanged since."""
    original = original_of(job, NAME)
    if original is None:
        return False
    changed = is_changed(job)
    if changed is None:
        read = _read_again(original)
        return read is not None and read == job.model_copy(update={"original": read.original})
    return not changed


def _read_again(original: dict[str, Any] | None) -> Job | None:
    """Return the job of a stored definition, or None if it is no definition."""
    if original is None:
        return None
    try:
        (job,), _ = read_hkube(Document("original", original))
    except RequestError:
        return None
    return job


def _only_task(job: Job) -> Task:
    tasks = list(itertools.islice(plan_tasks(job, pathlib.Path()), 2))
    if len(tasks) != 1:
        raise RequestError(f"{job.name} has several tasks, but an algorithm is a single task")
    return tasks[0]


def _definition_of(job: Job) -> dict[str, Any]:
    task = _only_task(job)
    definition: dict[str, Any] = {"name": job.name}
    if _says_what_runs(job):
        definition["tarmac"] = job.model_dump(
            mode="json", by_alias=True, exclude_unset=True, include={*_OWN}
        )
    elif task.environment.kind == "container":
        definition["algorithmImage"] = task.environment.image
    else:
        raise RequestError(
            f"{job.name} has no image, but HKube's algorithms are images",
            hint="Give it one: environment: {image: NAME}",
        )
    definition["cpu"] = task.resources.cpus
    memory = task.resources.memory
    if memory is not None:
        definition["mem"] = f"{max(LEAST_MEMORY_MI, -(-memory // 2**20))}Mi"
    if task.resources.gpus:
        definition["gpu"] = task.resources.gpus
    env: dict[str, Any] = {**_served(job, task), **task.env}
    for name, secret in task.secrets.items():
        if secret.name is not None:
            env[name] = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
    if env:
        definition["algorithmEnv"] = env
    return definition


def _workload_of(job: Job) -> str | None:
    (spec,) = job.tasks or (job,)
    return spec.workload


def _served(job: Job, task: Task) -> dict[str, str]:
    """Return the variables with a job's workload and settings for ``tarmac hkube serve``."""
    if _workload_of(job) is None:
        return {}
    # Arguments of `tarmac train`, with placeholders filled: WORKLOAD --set KEY=VALUE ...
    workload, *options = task.train_words
    settings = dict(option.split("=", 1) for option in options[1::2])
    variables = {"TARMAC_WORKLOAD": workload}
    if settings:
        variables["TARMAC_SETTINGS"] = json.dumps(settings)
    if task.resources.gpus:
        variables["TARMAC_GPUS"] = f"{task.resources.gpus:g}"
    return variables


def _says_what_runs(job: Job) -> bool:
    """Return whether a job's original definition sets a program in ``options.tarmac``."""
    options = (original_of(job, NAME) or {}).get("options")
    own = options.get("tarmac") if isinstance(options, dict) else None
    return isinstance(own, dict) and bool({"command", "environment"} & own.keys())


def _changed(
    original: dict[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a stored definition, changed by the differences between two written ones."""
    definition = copy.deepcopy(original)
    fields = dict(flatten(definition))
    for key in MEANT:
        if before.get(key) == after.get(key):
            continue
        path = fields[key].path if key in fields else (key,)
        if key == "algorithmEnv" and isinstance(_at(definition, path), dict):
            # Variables that only a cluster can resolve are in neither, and stay.
            _put_differences(_at(definition, path), before.get(key, {}), after.get(key, {}))
        else:
            _put(_at(definition, path[:-1]), path[-1], after.get(key))
    if "tarmac" in after:
        own = definition["options"]["tarmac"]
        _put_differences(own, before.get("tarmac", {}), after["tarmac"])
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


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value

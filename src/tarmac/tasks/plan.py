"""Expansion of a job into tasks: sweeps expanded, settings inherited, placeholders filled."""

from __future__ import annotations

import dataclasses
import glob
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tarmac.documents import show_path
from tarmac.errors import RequestError
from tarmac.processes import python_command
from tarmac.tasks.graph import MAX_TASKS, graph_faults, too_many
from tarmac.tasks.model import (
    Container,
    Environment,
    Input,
    Job,
    Output,
    Resources,
    Retries,
    Secret,
    TaskSpec,
    Venv,
)
from tarmac.tasks.placeholders import fill, fill_all, show
from tarmac.tasks.script_needs import script_environment, script_of
from tarmac.tasks.workload_files import workload_in_task, workload_inputs

# Variable by which a later attempt finds the run of an earlier attempt.
LAUNCH = "TARMAC_LAUNCH"

# Options of `tarmac train` that a job's settings may name, as a study's settings may.
_OPTIONS = {
    "epochs": "--epochs",
    "seed": "--seed",
    "batch_size": "--batch-size",
    "learning_rate": "--lr",
}

# File systems refuse the paths of longer names.
_LONGEST_NAME = 80

_ADDED_UP = ("env", "secrets")
_CHAINED = ("inputs", "outputs")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A task after expansion, with all placeholders filled.

    Attributes:
        name: Name of the task, unique in its job: ``train[lr=0.1]``.
        index: Number of the task in the order of the file, from 0.
        spec: Name of the task before expansion.
        parameters: Values of the task's sweep parameters, by name.
        command: Program and its arguments.
        needs: Names of specs that must succeed before this task starts.
        options: Settings for a single executor, by its name.
        continues: Whether tasks that need this task start even after its failure.
        is_last: Whether the task follows all others, whether or not they succeeded.
        trains: Whether the task is one training by Tarmac, which a later attempt resumes.
    """

    name: str
    index: int
    spec: str
    parameters: Mapping[str, Any]
    command: Sequence[str]
    needs: Sequence[str]
    environment: Environment
    resources: Resources
    env: Mapping[str, str]
    secrets: Mapping[str, Secret]
    inputs: Sequence[Input]
    outputs: Sequence[Output]
    timeout_s: float | None
    retries: Retries
    priority: int
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    continues: bool = False
    is_last: bool = False
    trains: bool = False

    def command_line(self) -> str:
        """Return the command as a shell command line."""
        return shlex.join(self.command) or "(what the image runs)"

    @property
    def train_words(self) -> Sequence[str]:
        """The words after ``tarmac train``, the workload first; empty for other tasks."""
        return self.command[self.command.index("train") + 1 :] if self.trains else ()


def plan_tasks(job: Job, directory: Path) -> Iterator[Task]:
    """Yield the tasks of a job, in the order of the file.

    Args:
        job: Job to expand; a pipeline is refused.
        directory: Directory that the patterns of a sweep's ``files`` start from.

    Raises:
        RequestError: Tasks form a cycle, need an unknown task, use a placeholder without a value,
            or are too many; or the job is a pipeline.
    """
    if job.pipeline is not None:
        raise RequestError(
            f"{job.name} is a pipeline: its tasks are not known before it runs",
            hint="tarmac run FILE, or tarmac.run",
        )
    for fault in graph_faults(job):
        raise RequestError(f"{show_path(fault.path)}: {fault.message}", hint=fault.hint or None)
    index = 0
    specs = [*specs_of(job)]
    for whole in specs:
        is_last = job.after_all is not None and whole is specs[-1]
        for task in _expand(job, whole, directory, index, is_last=is_last):
            yield task
            index += 1


def specs_of(job: Job) -> Iterator[TaskSpec]:
    """Yield the tasks of a job before expansion, with the settings they inherit from the job.

    Args:
        job: Job with tasks; a pipeline yields none.
    """
    if job.pipeline is not None:
        return
    specs = job.tasks or (_own_task(job),)
    for spec in (*specs, job.after_all) if job.after_all is not None else specs:
        yield _inherit(job, spec)


def _own_task(job: Job) -> TaskSpec:
    fields = {
        name: getattr(job, name) for name in TaskSpec.model_fields if name in Job.model_fields
    }
    # Only keys that the job sets count as set, as in a task of several.
    there = {name for name in fields if name in job.model_fields_set}
    return TaskSpec.model_construct(_fields_set=there, **fields, needs=())


def thread_variables(cpus: float) -> dict[str, str]:
    """Return the variables that limit numeric libraries to a task's number of CPUs.

    A task's own variables override them.
    """
    threads = str(max(1, int(cpus)))
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, threads)


def _inherit(job: Job, spec: TaskSpec) -> TaskSpec:
    """Return a task with the job's settings where it has none of its own."""
    if not job.tasks and spec is not job.after_all:
        return spec
    changes: dict[str, Any] = {}
    for name in ("environment", "resources", "timeout", "retries", "priority"):
        if name not in spec.model_fields_set and name in job.model_fields_set:
            changes[name] = getattr(job, name)
    for name in _ADDED_UP:
        changes[name] = getattr(job, name) | getattr(spec, name)
    engines = dict.fromkeys([*job.options, *spec.options])
    changes["options"] = {
        name: job.options.get(name, {}) | spec.options.get(name, {}) for name in engines
    }
    for name in _CHAINED:
        changes[name] = (*getattr(job, name), *getattr(spec, name))
    # A sweep of the job applies to each of its tasks; the task after all others runs once.
    if spec.sweep is None and spec is not job.after_all:
        changes["sweep"] = job.sweep
    return spec.model_copy(update=changes)


def _expand(
    job: Job, spec: TaskSpec, directory: Path, first: int, *, is_last: bool
) -> Iterator[Task]:
    filler = _Filler(spec, directory)
    if spec.sweep is None:
        yield _task(job, filler, {}, first, spec.name, is_last=is_last)
        return
    files = {name: _matching(name, p, directory) for name, p in spec.sweep.files.items()}
    number = first + spec.sweep.size(files)
    if number > MAX_TASKS:
        raise RequestError(f"task {spec.name!r}: its sweep over files {too_many(number)}")
    names = set()
    for number, parameters in enumerate(spec.sweep.combinations(files)):
        shown = ",".join(f"{name}={show(value)}" for name, value in parameters.items())
        name = f"{spec.name}[{shown}]"
        if len(name) > _LONGEST_NAME or "/" in name or "\n" in name or name in names:
            name = f"{spec.name}[{number}]"
        names.add(name)
        yield _task(job, filler, parameters, first + number, name, is_last=is_last)


def _matching(name: str, pattern: str, directory: Path) -> list[str]:
    # Path.glob takes no absolute patterns. The directory's own name must not be a pattern.
    matching = glob.glob(pattern, root_dir=directory, recursive=True)  # noqa: PTH207
    paths = sorted(str(directory / path) for path in matching)
    if not paths:
        raise RequestError(f"sweep over files: {name} is {pattern!r}, which matches no file")
    return paths


def _task(
    job: Job,
    filler: _Filler,
    parameters: Mapping[str, Any],
    index: int,
    name: str,
    *,
    is_last: bool,
) -> Task:
    spec = filler.spec
    values = {
        **parameters,
        "job.name": job.name,
        "task.name": name,
        "task.index": index,
        "tarmac.python": sys.executable,
    }
    try:
        return Task(
            name=name,
            index=index,
            spec=spec.name,
            parameters=parameters,
            needs=spec.needs,
            resources=spec.resources,
            secrets=spec.secrets,
            **filler.fill(values),
            timeout_s=spec.timeout,
            retries=spec.retries,
            priority=spec.priority,
            options=spec.options,
            continues=spec.on_failure == "continue",
            is_last=is_last,
            trains=spec.workload is not None,
        )
    except ValidationError as error:
        message = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise RequestError(f"task {spec.name!r} with {dict(parameters)}: {message}") from error
    except RequestError as error:
        raise RequestError(f"task {spec.name!r}: {error.message}", hint=error.hint) from error


class _Filler:
    """A task's placeholders, to be filled for each combination of sweep parameters.

    A part without placeholders is filled once and shared: a sweep may have a million tasks.

    Args:
        spec: Task before its sweep is expanded.
        directory: Directory of the job file, which the workload's path starts from.
    """

    def __init__(self, spec: TaskSpec, directory: Path) -> None:
        self.spec = spec
        self._directory = directory
        self._varies = {
            part: "{{" in repr(spec.model_dump(include={*fields}))
            for part, (fields, _) in _FILLED.items()
        }
        self._shared: dict[str, Any] = {}
        self._files: dict[str, tuple[Input, ...]] = {}
        self._scripts: dict[str, Environment | None] = {}

    def fill(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts with their placeholders replaced by values.

        Raises:
            RequestError: A placeholder has no value, or there is no program to run.
            ValidationError: A value is invalid in its field.
        """
        for part, (_, fill_part) in _FILLED.items():
            if self._varies[part] or part not in self._shared:
                self._shared[part] = fill_part(self.spec, values)
        if self.spec.workload is not None:
            return self._shared | {"inputs": self._with_workload(values)}
        environment = self._of_script() if "environment" not in self.spec.model_fields_set else None
        return self._shared | ({"environment": environment} if environment is not None else {})

    def _of_script(self) -> Environment | None:
        """Return the environment that the task's script declares."""
        script, inputs = script_of(self._shared["command"]), self._shared["inputs"]
        if script is None:
            return None
        if script not in self._scripts:
            self._scripts[script] = script_environment(script, inputs, self._directory)
        return self._scripts[script]

    def _with_workload(self, values: Mapping[str, Any]) -> tuple[Input, ...]:
        """Return the task's inputs, with the files of its workload."""
        reference, inputs = fill(self.spec.workload or "", values), self._shared["inputs"]
        if reference not in self._files:
            self._files[reference] = workload_inputs(reference, inputs, self._directory)
        return (*inputs, *self._files[reference])


def _command(spec: TaskSpec, values: Mapping[str, Any]) -> tuple[str, ...]:
    if spec.workload is not None:
        settings = fill_all(dict(spec.settings), values).items()
        options = [
            part
            for key, text in settings
            for part in ((_OPTIONS[key], text) if key in _OPTIONS else ("--set", f"{key}={text}"))
        ]
        workload = workload_in_task(fill(spec.workload, values))
        return tuple(python_command("tarmac", "train", workload, *options))
    if isinstance(spec.command, str):
        return ("sh", "-c", fill(spec.command, values))
    if spec.command is None:
        if not isinstance(spec.environment, Container):
            raise RequestError("expected one of command and workload")
        return ()
    return tuple(fill(part, values) for part in spec.command)


def _environment(spec: TaskSpec, values: Mapping[str, Any]) -> Environment:
    """Fill the placeholders of an environment, and choose its requirements by the task's GPUs."""
    filled = fill_all(spec.environment.model_dump(), values)
    environment = type(spec.environment).model_validate(filled)
    if isinstance(environment, Venv):
        return environment.chosen(with_gpus=spec.resources.gpus > 0)
    return environment


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    texts = {
        name: fill(value, values)
        for name in type(part).model_fields
        if isinstance(value := getattr(part, name), str)
    }
    # Validate again: a value may lead out of the task's directory.
    return type(part).model_validate(part.model_dump() | texts)


# By field of `Task`: the fields of `TaskSpec` that it is filled from, and the function.
_FILLED: Mapping[str, tuple[tuple[str, ...], Callable[[TaskSpec, Mapping[str, Any]], Any]]] = {
    "command": (("command", "workload", "settings"), _command),
    "environment": (
        ("environment",),
        _environment,
    ),
    "env": (
        ("env",),
        lambda spec, values: {key: fill(text, values) for key, text in spec.env.items()},
    ),
    "inputs": (
        ("inputs",),
        lambda spec, values: tuple(_filled(part, values) for part in spec.inputs),
    ),
    "outputs": (
        ("outputs",),
        lambda spec, values: tuple(_filled(part, values) for part in spec.outputs),
    ),
}

"""Prints what a job would do: ``tarmac run --dry-run``."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from tarmac.jobs import plan_tasks, read_machine, read_status, thread_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tarmac.formats import Reading
    from tarmac.jobs import JobRun, Machine, Task

__all__ = ["Plan", "plans_of", "print_plans", "rest_of"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a job would do.

    Attributes:
        name: The job's.
        tasks: In the order of the file.
        notes: What its file says that is read otherwise or has no effect here.
        refusals: Why it cannot be run here.
    """

    name: str
    tasks: Sequence[Task]
    notes: Sequence[str] = ()
    refusals: Sequence[str] = ()


def plans_of(read: Sequence[tuple[Reading, Path]]) -> list[Plan]:
    """Return the plans of all jobs that were read.

    Raises:
        RequestError: One cannot be planned.
    """
    return [
        Plan(job.name, tuple(plan_tasks(job, base)), reading.notes, reading.refusals)
        for reading, base in read
        for job in reading.jobs
    ]


def rest_of(run: JobRun) -> Plan:
    """Return what going on with a run would do: the tasks that have not succeeded."""
    done = {task.name for task in read_status(run.path).tasks if task.state == "succeeded"}
    return Plan(run.job.name, [task for task in run.tasks if task.name not in done])


def print_plans(plans: Sequence[Plan], *, fake_gpus: int, as_json: bool) -> None:
    """Print what jobs would do, with secrets as references."""
    machine = read_machine(fake_gpus=fake_gpus)
    if as_json:
        rows = [_row(plan, task, machine) for plan in plans for task in plan.tasks]
        click.echo(json.dumps(rows, indent=2))
        return
    for plan in plans:
        click.secho(f"{plan.name}: {len(plan.tasks)} tasks", bold=True)
        for task in plan.tasks:
            click.echo(f"  {task.name}{_order(task)}")
            for line in _lines(task, machine):
                click.echo(f"    {line}")


def _row(plan: Plan, task: Task, machine: Machine) -> dict[str, Any]:
    return {
        "job": plan.name,
        "notes": [*plan.notes],
        "refusals": [*plan.refusals],
        "task": task.name,
        "command": [*task.command],
        "needs": [*task.needs],
        "after_all": task.is_last,
        "priority": task.priority,
        "timeout_s": task.timeout_s,
        "retries": task.retries.model_dump(),
        "resources": task.resources.model_dump(),
        "gpus_from": [gpu.uuid for gpu in machine.candidates(task.resources)],
        "environment": task.environment.model_dump(),
        "env": _variables(task),
        "inputs": [part.model_dump(by_alias=True) for part in task.inputs],
        "outputs": [part.model_dump() for part in task.outputs],
    }


def _variables(task: Task) -> dict[str, str]:
    """Return the variables that a task gets, with secrets as references."""
    secrets = {name: str(secret) for name, secret in task.secrets.items()}
    resources = task.resources
    threads = {} if resources.shares_cpus else thread_variables(resources.cpus)
    return threads | dict(task.env) | secrets


def _order(task: Task) -> str:
    needs = f" after {', '.join(task.needs)}" if task.needs else ""
    needs = " after all others" if task.is_last else needs
    return f"{needs}, priority {task.priority}" if task.priority else needs


def _lines(task: Task, machine: Machine) -> Iterator[str]:
    """Yield the lines on one task."""
    container = task.environment if task.environment.kind == "container" else None
    entrypoint = (container and container.entrypoint) or ()
    command = task.command_line() if task.command or not entrypoint else ""
    yield f"$ {shlex.join(entrypoint)} {command}".rstrip() if entrypoint else f"$ {command}"
    resources = task.resources
    kind = f"{task.environment.kind} {container.image if container else ''}".rstrip()
    memory = f", {resources.memory / 2**30:.2g} GiB" if resources.memory else ""
    limit = f", at most {task.timeout_s:g} s" if task.timeout_s is not None else ""
    again = f", retried {task.retries.count} times" if task.retries.count else ""
    cpus = "all CPUs, shared" if resources.shares_cpus else f"{resources.cpus:g} CPUs"
    yield f"{kind}, {cpus}{memory}{limit}{again}"
    if container:
        given = {
            "user": container.user,
            "network": container.network,
            "workdir": container.workdir if container.workdir != "" else "the image's",
            "ipc": container.ipc,
            "ulimits": " ".join(container.ulimits) or None,
            "shm": f"{resources.shm / 2**20:.4g} MiB" if resources.shm else None,
        }
        said = [f"{name} {value}" for name, value in given.items() if value is not None]
        if said:
            yield ", ".join(said)
    if resources.gpus:
        found = [f"{gpu.name} {gpu.uuid}" for gpu in machine.candidates(resources)]
        of = f"of {', '.join(found)}" if found else "which this machine does not have"
        yield f"{resources.gpus:g} GPUs, {of}"
    for mount in container.mounts if container else ():
        yield f"{mount.source} -> {mount.target}{' (read only)' * mount.read_only}"
    for key, text in _variables(task).items():
        yield f"{key}={text}"
    for source in task.inputs:
        chosen = _patterns("only", source.include) + _patterns("without", source.exclude)
        yield f"{source.source} -> {source.to or '.'}{chosen}"
    for output in task.outputs:
        left = _patterns("without", output.exclude)
        yield f"{output.path} -> {output.to} ({output.when}){left}"


def _patterns(word: str, patterns: Sequence[str]) -> str:
    return f", {word} {' '.join(patterns)}" if patterns else ""

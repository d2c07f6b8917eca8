"""The plan of a job: ``tarmac run --dry-run``."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tarmac.documents import Document
from tarmac.errors import RequestError
from tarmac.jobs import (
    Environment,
    JobRun,
    Machine,
    Secret,
    Task,
    Venv,
    plan_tasks,
    problems_beforehand,
    tasks_left,
    thread_variables,
)
from tarmac.machine import newest_cuda
from tarmac.wording import counted, in_lines

if TYPE_CHECKING:
    from tarmac.formats import Reading

# Most tasks of one sweep to show: more would push the tasks that differ off the screen.
_MAX_ALIKE = 100


_FOR_GPUS = ("gpu_requirements", "gpu_before", "gpu_build_env")


@dataclasses.dataclass(frozen=True)
class Plan:
    """The tasks of a job before it runs, with notes and problems.

    Attributes:
        name: Name of the job, from its file.
        base: Directory that the job's relative paths start from.
        tasks: Tasks in the order of the file.
        concurrency: Maximum number of tasks at a time. None: as many as fit.
        notes: Values of the file that are read differently or have no effect here.
        refusals: Reasons of its format why the job cannot run here.
        problems: Missing needs: CPUs, memory, GPUs, secrets, inputs, workloads, container engines.
        source: File of the job, if that holds the job's own values.
    """

    name: str
    base: Path
    tasks: Sequence[Task]
    concurrency: int | None = None
    notes: Sequence[str] = ()
    refusals: Sequence[str] = ()
    problems: Sequence[str] = ()
    source: Document | None = None


def plans_of(
    read: Sequence[tuple[Reading, Path]],
    on: str = "local",
    mapping: Mapping[str, Secret] | None = None,
    machine: Machine | None = None,
) -> list[Plan]:
    """Return the plans of all jobs that were read, except pipelines.

    Args:
        read: Contents of the files, each with the directory that its paths start from.
        on: Executor of the tasks. Default ``local``.
        mapping: Secrets by name. None: no check for problems.
        machine: This machine, if the tasks would run on it, else None.

    Raises:
        RequestError: A job cannot be planned.
    """
    plans = []
    for reading, base in read:
        for job in reading.jobs:
            if job.pipeline is not None:
                continue
            tasks = tuple(plan_tasks(job, base))
            problems = [] if machine is None else machine.problems_of(tasks)
            if mapping is not None:
                pretends = machine is not None and machine.is_pretending
                problems += problems_beforehand(
                    tasks, base, mapping, executor=on, is_pretending=pretends
                )
            plans.append(
                Plan(
                    job.name,
                    base,
                    tasks,
                    job.concurrency,
                    reading.notes,
                    reading.refusals,
                    problems,
                    reading.source,
                )
            )
    return plans


def rest_of(run: JobRun, mapping: Mapping[str, Secret], machine: Machine | None) -> Plan:
    """Return the plan for resuming a run: the tasks that have not succeeded.

    Args:
        run: Run of the job to continue.
        mapping: Secrets by name, for the check for problems.
        machine: This machine, if the tasks would run on it, else None.
    """
    tasks = tasks_left(run)
    problems = [] if machine is None else machine.problems_of(tasks)
    pretends = machine is not None and machine.is_pretending
    problems += problems_beforehand(
        tasks, run.base, mapping, executor=run.executor, is_pretending=pretends
    )
    return Plan(run.job.name, run.base, tasks, run.job.concurrency, problems=problems)


def plan_rows(plans: Sequence[Plan], machine: Machine | None) -> list[dict[str, Any]]:
    """Return the plans of jobs as rows for JSON, one for each task.

    Args:
        plans: Plans of the jobs, in the order of their rows.
        machine: This machine, if the tasks would run on it, else None.
    """
    return [_row(plan, task, machine) for plan in plans for task in plan.tasks]


def print_plans(plans: Sequence[Plan], machine: Machine | None) -> None:
    """Print the plans of jobs, with secrets as references; see `plan_rows`.

    Of very many tasks that were expanded from one, only the first are printed.
    """
    for plan in plans:
        click.secho(f"{plan.name}: {counted(len(plan.tasks), 'task')}", bold=True)
        for _, alike in itertools.groupby(plan.tasks, key=lambda task: task.spec):
            for task in itertools.islice(alike, _MAX_ALIKE):
                click.echo(f"  {task.name}{_order(task)}")
                for line in task_lines(task, machine):
                    click.echo(f"    {line}")
            more = sum(1 for _ in alike)
            if more:
                click.echo(f"  and {more:,} more of {task.spec}; --json shows all")
        say_problems(plan.problems)


def say_problems(problems: Iterable[str]) -> None:
    """Print on standard error why a job cannot be run as it is."""
    for problem in problems:
        text = problem.replace("\n", "\n  ")
        click.secho(in_lines(f"cannot be run here: {text}"), fg="yellow", err=True)


def _row(plan: Plan, task: Task, machine: Machine | None) -> dict[str, Any]:
    refusals = [*plan.refusals, *plan.problems]
    row = {"job": plan.name, "notes": [*plan.notes], "refusals": refusals}
    return row | task_row(task, machine)


def task_row(task: Task, machine: Machine | None) -> dict[str, Any]:
    """Return a task for JSON, with secrets as references; see `plan_rows`."""
    gpus = machine.candidates(task.resources) if machine is not None else ()
    return {
        "task": task.name,
        "command": [*task.command],
        "needs": [*task.needs],
        "after_all": task.is_last,
        "priority": task.priority,
        "timeout_s": task.timeout_s,
        "retries": task.retries.model_dump(),
        "resources": task.resources.model_dump(),
        "gpus_from": [gpu.uuid for gpu in gpus],
        "options": {name: dict(values) for name, values in task.options.items()},
        "environment": _on(machine, task.environment).model_dump(),
        "env": _variables(task),
        "inputs": [part.model_dump(by_alias=True) for part in task.inputs],
        "outputs": [part.model_dump() for part in task.outputs],
    }


def _variables(task: Task) -> dict[str, str]:
    """Return the environment variables of a task, with secrets as references."""
    secrets = {name: str(secret) for name, secret in task.secrets.items()}
    resources = task.resources
    threads = {} if resources.shares_cpus else thread_variables(resources.cpus)
    return threads | dict(task.env) | secrets


def _order(task: Task) -> str:
    needs = f" after {', '.join(task.needs)}" if task.needs else ""
    needs = " after all others" if task.is_last else needs
    return f"{needs}, priority {task.priority}" if task.priority else needs


def _on(machine: Machine | None, environment: Environment) -> Environment:
    """Return the environment as the driver of its machine decides, if that is known."""
    if machine is None or environment.kind != "venv" or not environment.needs_driver:
        return environment
    if machine.is_pretending:
        return environment.chosen(with_gpus=False)
    # The plan's problems say so if no requirements suit the driver.
    with contextlib.suppress(RequestError):
        return environment.for_driver(newest_cuda())
    return environment


def _why_for_gpus(environment: Venv, machine: Machine | None) -> str:
    if not environment.needs_driver:
        names = [name for name in _FOR_GPUS if getattr(environment, name)]
        return f" of {' and '.join(names)}, as it asks for GPUs"
    choice = " or ".join(environment.gpu_requirements)
    if machine is not None and machine.is_pretending:
        return " of requirements, as its GPUs are pretended"
    if machine is not None:
        # The plan's problems say so if no requirements suit the driver.
        with contextlib.suppress(RequestError):
            driver = newest_cuda()
            chosen = environment.cuda_for(driver)
            why = f"the driver here runs CUDA {driver}" if driver else "no driver answers here"
            return f" of gpu_requirements for {chosen}, as {why}"
    return f" of gpu_requirements for {choice}, by the driver where it runs"


def task_lines(task: Task, machine: Machine | None) -> Iterator[str]:
    """Yield the lines on a task, with secrets as references; see `plan_rows`."""
    container = task.environment if task.environment.kind == "container" else None
    entrypoint = (container and container.entrypoint) or ()
    command = task.command_line() if task.command or not entrypoint else ""
    yield f"$ {shlex.join(entrypoint)} {command}".rstrip() if entrypoint else f"$ {command}"
    resources = task.resources
    kind = f"{task.environment.kind} {container.image if container else ''}".rstrip()
    if task.environment.kind == "venv" and task.environment.is_for_gpus:
        kind += _why_for_gpus(task.environment, machine)
    if task.environment.kind == "project":
        kind += f" {task.environment.path}"
    if task.environment.kind == "conda":
        conda = task.environment
        kind += f" {conda.name or conda.prefix or conda.file}"
        kind += f" by {conda.tool}" if conda.tool else ""
    memory = f", {resources.memory / 2**30:.2g} GiB" if resources.memory else ""
    limit = f", at most {task.timeout_s:g} s" if task.timeout_s is not None else ""
    again = f", retried {task.retries.count} times" if task.retries.count else ""
    cpus = "all CPUs, shared" if resources.shares_cpus else counted(resources.cpus, "CPU")
    nodes = f", on each of {resources.nodes} nodes" if resources.nodes > 1 else ""
    yield f"{kind}, {cpus}{memory}{nodes}{limit}{again}"
    if container:
        settings = {
            "user": container.user,
            "network": container.network,
            "workdir": container.workdir if container.workdir != "" else "the image's",
            "ipc": container.ipc,
            "ulimits": " ".join(container.ulimits) or None,
            "shm": f"{resources.shm / 2**20:.4g} MiB" if resources.shm else None,
        }
        texts = [f"{name} {value}" for name, value in settings.items() if value is not None]
        if texts:
            yield ", ".join(texts)
    gpu_kind = f" of type {resources.gpu_type}" if resources.gpu_type else ""
    if resources.gpus and machine is None:
        yield f"{counted(resources.gpus, 'GPU')}{gpu_kind}"
    elif resources.gpus and machine is not None:
        gpus = [f"{gpu.name} {gpu.uuid}" for gpu in machine.candidates(resources)]
        of = f"of {', '.join(gpus)}" if gpus else "which this machine does not have"
        yield f"{counted(resources.gpus, 'GPU')}{gpu_kind}, {of}"
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

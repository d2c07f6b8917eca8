"""Prints what a job would do: ``tarmac run --dry-run``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tarmac.jobs import plan_tasks, read_machine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tarmac.jobs import Job, Machine, Task

__all__ = ["print_plans"]


def print_plans(read: Sequence[tuple[Job, Path]], *, fake_gpus: int, as_json: bool) -> None:
    """Print what jobs would do, with secrets as references."""
    machine = read_machine(fake_gpus=fake_gpus)
    plans = [(job.name, tuple(plan_tasks(job, base))) for job, base in read]
    if as_json:
        rows = [
            {
                "job": name,
                "task": task.name,
                "command": [*task.command],
                "needs": [*task.needs],
                "resources": task.resources.model_dump(),
                "gpus_from": [gpu.uuid for gpu in machine.candidates(task.resources)],
                "environment": task.environment.model_dump(),
                "env": dict(task.env) | {k: str(v) for k, v in task.secrets.items()},
                "inputs": [part.model_dump(by_alias=True) for part in task.inputs],
                "outputs": [part.model_dump() for part in task.outputs],
            }
            for name, tasks in plans
            for task in tasks
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    for name, tasks in plans:
        click.secho(f"{name}: {len(tasks)} tasks", bold=True)
        for task in tasks:
            _print_task(task, machine)


def _print_task(task: Task, machine: Machine) -> None:
    needs = f" after {', '.join(task.needs)}" if task.needs else ""
    needs = " after all others" if task.is_last else needs
    click.echo(f"  {task.name}{needs}")
    click.echo(f"    $ {task.command_line()}")
    resources = task.resources
    memory = f", {resources.memory / 2**30:.2g} GiB" if resources.memory else ""
    image = getattr(task.environment, "image", "")
    kind = f"{task.environment.kind} {image}".rstrip()
    limit = f", at most {task.timeout_s:g} s" if task.timeout_s is not None else ""
    again = f", retried {task.retries.count} times" if task.retries.count else ""
    cpus = "all CPUs, shared" if resources.shares_cpus else f"{resources.cpus:g} CPUs"
    click.echo(f"    {kind}, {cpus}{memory}{limit}{again}")
    if resources.gpus:
        found = [f"{gpu.name} {gpu.uuid}" for gpu in machine.candidates(resources)]
        of = f"of {', '.join(found)}" if found else "which this machine does not have"
        click.echo(f"    {resources.gpus:g} GPUs, {of}")
    for mount in getattr(task.environment, "mounts", ()):
        click.echo(f"    {mount.source} -> {mount.target}{' (read only)' * mount.read_only}")
    for key, text in task.env.items():
        click.echo(f"    {key}={text}")
    for key, secret in task.secrets.items():
        click.echo(f"    {key}={secret}")
    for given in task.inputs:
        click.echo(f"    {given.source} -> {given.to or '.'}")
    for output in task.outputs:
        click.echo(f"    {output.path} -> {output.to} ({output.when})")

"""The plan of a pipeline: ``tarmac run --dry-run``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tarmac.cli.views.job_plan import task_lines, task_row
from tarmac.hkube import PipelinePlan, forecast, plan_pipeline, to_json
from tarmac.jobs import Job, Machine, plan_tasks, read_machine
from tarmac.wording import counted

# Most tasks of one node to show: more tasks add no information.
_MAX_TASKS = 20
_MAX_CHARACTERS = 200


def print_pipeline(job: Job, base: Path, *, fake_gpus: int) -> None:
    """Print a pipeline's nodes, its known tasks, and its algorithms.

    Raises:
        RequestError: The pipeline is invalid.
    """
    plan, machine = plan_pipeline(job), read_machine(fake_gpus=fake_gpus)
    num_nodes = len(plan.pipeline.nodes)
    what = "1 node" if num_nodes == 1 else f"pipeline of {num_nodes} nodes"
    click.secho(f"{job.name}: {what}", bold=True)
    for line in _node_lines(plan):
        click.echo(line)
    for name, algorithm in plan.needed.items():
        click.secho(f"algorithm {name}", bold=True)
        for task in plan_tasks(algorithm.job, base):
            for line in task_lines(task, machine):
                click.echo(f"    {line}")


def pipeline_rows(
    job: Job, base: Path, machine: Machine, notes: Sequence[str], refusals: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row for each node, for JSON.

    Raises:
        RequestError: The pipeline is invalid.
    """
    plan = plan_pipeline(job)
    nodes = {node.node_name: node for node in plan.pipeline.nodes}
    rows = []
    for part in forecast(plan):
        node = nodes[part.node]
        algorithm = plan.algorithms.get(node.algorithm_name or "")
        tasks = [] if algorithm is None else [*plan_tasks(algorithm.job, base)]
        rows.append(
            {
                "job": job.name,
                "notes": [*notes],
                "refusals": [*refusals],
                "node": part.node,
                "kind": node.kind,
                "algorithm": node.algorithm_name,
                "num_tasks": part.num_tasks,
                "depends_on": [*part.depends_on],
                "inputs": None if part.tasks is None else [[*task.input] for task in part.tasks],
                "runs": [task_row(task, machine) for task in tasks],
            }
        )
    return rows


def _node_lines(plan: PipelinePlan) -> Iterator[str]:
    nodes = {node.node_name: node for node in plan.pipeline.nodes}
    for part in forecast(plan):
        node = nodes[part.node]
        what = node.algorithm_name or node.kind
        after = f" after {', '.join(part.depends_on)}" if part.depends_on else ""
        if part.num_tasks is None:
            yield f"  {part.node}: {what}{after}; their results determine the number of tasks"
        else:
            tasks = counted(part.num_tasks, "task")
            yield f"  {part.node}: {what}{after}, {tasks}"
        if part.tasks is None:
            whose = "its" if part.num_tasks == 1 else "their"
            yield f"    {whose} input depends on results"
            continue
        for task in itertools.islice(part.tasks, _MAX_TASKS):
            text = to_json([*task.input])
            shown = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."
            yield f"    {task.name} {shown}"
        if len(part.tasks) > _MAX_TASKS:
            yield f"    and {len(part.tasks) - _MAX_TASKS} more"

"""Output of ``tarmac search --dry-run``: the search, and the files that a cluster would get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tarmac.cli.dry_run import print_files
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.cli.views.job_plan import Plan
    from tarmac.studies import Choices, Numbers, Preview, Workers

# Most values of a range with steps to list one by one.
_MAX_NAMED = 10


def print_preview(preview: Preview, workers: Workers | None, *, as_json: bool) -> None:
    """Print the plan of a search.

    Args:
        preview: Plan of the search that would start or resume.
        workers: Request for workers on a cluster. None: this machine searches.
        as_json: Whether to print JSON only.
    """
    from tarmac.cli.views.job_plan import plan_rows, task_lines

    plan = _plan(preview)
    if as_json:
        content = {
            "path": str(preview.directory),
            "request": preview.request.model_dump(mode="json"),
            "networks": preview.num_networks,
            "done": preview.num_done,
            "train_size": preview.train_size,
            "validation_size": preview.validation_size,
            "validation_split": preview.validation_split,
            "workers": [] if plan is None else plan_rows([plan], None),
        }
        click.echo(json.dumps(content, indent=2))
        return
    request = preview.request
    networks = counted(preview.num_networks, "network")
    click.echo(f"{request.workload} by {request.method} over {networks}, seed {request.seed}")
    if preview.num_done:
        verbs = ("has", "is") if preview.num_done == 1 else ("have", "are")
        trials = counted(preview.num_done, "trial")
        click.echo(f"{trials} {verbs[0]} ended, and {verbs[1]} not repeated")
    click.echo(
        f"each trains {counted(request.epochs, 'epoch')} at most, on "
        f"{counted(preview.train_size, 'sample')}, judged by {preview.held_out}"
    )
    for line in _space_lines(preview):
        click.echo(line)
    click.echo(f"study {preview.directory}")
    if plan is not None and workers is not None:
        count = len(plan.tasks)
        click.secho("1 worker:" if count == 1 else f"{count:,} workers, each:", bold=True)
        for line in task_lines(plan.tasks[0], None):
            click.echo(f"  {line}")
        print_files(plan, workers.on, preview.runs, None)


def _space_lines(preview: Preview) -> Iterator[str]:
    """Yield a line for each setting, with all its possible values."""
    parameters = preview.space.parameters
    width = max(map(len, (*parameters, *preview.settings)))
    for name, parameter in parameters.items():
        yield f"  {name:<{width}}  {_values(parameter)}"
    for name, value in preview.settings.items():
        yield f"  {name:<{width}}  {'none' if value is None else value}, fixed"


def _values(parameter: Choices | Numbers) -> str:
    from tarmac.studies import Choices

    condition = " and ".join(
        f"{name} is {' or '.join(map(str, wanted))}" for name, wanted in parameter.when.items()
    )
    where = f", where {condition}" if condition else ""
    if isinstance(parameter, Choices) or (parameter.step and parameter.size <= _MAX_NAMED):
        values = ", ".join("none" if value is None else str(value) for value in parameter.all())
        return f"{values}{where}"
    how = ", on a logarithmic scale" if parameter.log else ""
    steps = "" if parameter.step is None else f" in steps of {parameter.step}"
    return f"{parameter.low} to {parameter.high}{steps}{how}{where}"


def _plan(preview: Preview) -> Plan | None:
    """Return the plan of the workers' job; None if this machine searches."""
    from tarmac.cli.views.job_plan import Plan
    from tarmac.jobs import plan_tasks

    if preview.job is None:
        return None
    base = preview.directory.resolve()
    return Plan(preview.job.name, base, tuple(plan_tasks(preview.job, base)))

"""What ``tarmac search --dry-run`` prints: what would be searched, and a cluster be given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tarmac.cli.dry_run import print_files
from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.cli.views.job_plan import Plan
    from tarmac.studies import Preview, Workers

__all__ = ["print_preview"]


def print_preview(found: Preview, workers: Workers | None, *, as_json: bool) -> None:
    """Print what a search would do.

    Args:
        found: That.
        workers: What is asked of a cluster; None where this machine searches.
        as_json: Print JSON, and only that.
    """
    from tarmac.cli.views.job_plan import plan_rows, task_lines

    plan = _plan(found)
    if as_json:
        said = {
            "path": str(found.directory),
            "request": found.request.model_dump(mode="json"),
            "networks": found.num_networks,
            "done": found.num_done,
            "train_size": found.train_size,
            "validation_size": found.validation_size,
            "validation_split": found.validation_split,
            "workers": [] if plan is None else plan_rows([plan], None),
        }
        click.echo(json.dumps(said, indent=2))
        return
    request = found.request
    networks = counted(found.num_networks, "network")
    click.echo(f"{request.workload} by {request.method} over {networks}, seed {request.seed}")
    if found.num_done:
        verbs = ("has", "is") if found.num_done == 1 else ("have", "are")
        trials = counted(found.num_done, "trial")
        click.echo(f"{trials} {verbs[0]} ended, and {verbs[1]} not done again")
    click.echo(
        f"each trains {counted(request.epochs, 'epoch')} at most, on "
        f"{counted(found.train_size, 'sample')}, judged by {found.held_out}"
    )
    click.echo(f"study {found.directory}")
    if plan is not None and workers is not None:
        count = len(plan.tasks)
        click.secho("1 worker:" if count == 1 else f"{count:,} workers, each:", bold=True)
        for line in task_lines(plan.tasks[0], None):
            click.echo(f"  {line}")
        print_files(plan, workers.on, found.runs, None)


def _plan(found: Preview) -> Plan | None:
    """Return the plan of the workers' job."""
    from tarmac.cli.views.job_plan import Plan
    from tarmac.jobs import plan_tasks

    if found.job is None:
        return None
    base = found.directory.resolve()
    return Plan(found.job.name, base, tuple(plan_tasks(found.job, base)))

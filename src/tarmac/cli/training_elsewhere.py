"""``tarmac train --on``: the same command as a job on a cluster, and the run of that job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.cli.job_work import Shown, work
from tarmac.errors import RequestError, TarmacError, quoted

if TYPE_CHECKING:
    from tarmac.runs import Run
    from tarmac.settings import Settings

# Options for the job, for its place, or for this process only.
_NOT_PASSED_ON = {
    "workload",
    "resumed",
    "from_checkpoint",
    "output",
    "on",
    "profile",
    "nodes",
    "gpus_per_node",
    "cpus_per_node",
    "as_json",
    "verify",
}


def given_options(ctx: click.Context) -> Iterator[click.Parameter]:
    """Yield the parameters that the command line has."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(str(parameter.name))
        if source is click.core.ParameterSource.COMMANDLINE:
            yield parameter


def train_there(
    ctx: click.Context,
    place: Settings,
    workload: str | None,
    resumed: str | None,
    output: str | None,
    *,
    from_checkpoint: str | None,
    nodes: int,
    gpus_per_node: int,
    cpus_per_node: int | None,
    max_restarts: int,
    quiet: bool,
) -> Run:
    """Train on a cluster, print the progress, and return the training's run.

    Args:
        ctx: Click context of ``tarmac train``. Options that concern the training are passed on to
            the nodes.
        place: Executor and its options, from ``--on`` and the settings.
        workload: Workload to train. None: the workload of the resumed or extended run.
        resumed: Run to resume, by name or path, or ``latest``. None starts a new run.
        output: Directory in which to create the run. None: the default.
        from_checkpoint: Run whose checkpoint a new run starts from, by name or path. Default: none.
        nodes: Number of machines that train together.
        gpus_per_node: GPUs to request on each node. 0 trains on CPUs.
        cpus_per_node: CPU cores to request on each node. None: one per GPU.
        max_restarts: Maximum number of restarts after a lost worker.
        quiet: Whether to suppress all output.

    Raises:
        RequestError: The request cannot be met; nothing was submitted.
        TarmacError: The training failed.
        Interrupted: The user detached from the training, which goes on, or ended it.
    """
    from tarmac import jobs, runs
    from tarmac.files import is_object

    if output is not None and is_object(output):
        raise RequestError(
            f"--output is {output}, but the nodes and this machine need a directory that they share"
        )
    directory = Path(output) if output is not None else runs.default_output()
    options = [*_passed_on(ctx)]
    if resumed is not None:
        run = runs.resolve(resumed, directory)
        workload = workload or _recorded(run)
        options += ["--resume", str(run.path.resolve())]
    if from_checkpoint is not None:
        source = runs.resolve(from_checkpoint, directory)
        workload = workload or _recorded(source)
        options += ["--from-checkpoint", str(source.path.resolve())]
    assert workload is not None
    job = place.applied_to(
        jobs.training_job(
            workload,
            options,
            output=directory,
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            cpus_per_node=cpus_per_node,
            max_restarts=max_restarts,
        )
    )
    request = jobs.RunRequest(secrets=jobs.read_secret_mapping())
    assert place.on is not None
    tasks = jobs.prepare(job, Path.cwd(), request, executor=place.on)
    made = jobs.create_run(job, Path.cwd(), tasks, directory, executor=place.on)
    done = work(made, request, Shown(follow=True, as_json=quiet))
    if not done["ok"]:
        raise TarmacError(
            f"the training on {place.on} failed",
            hint=f"Read its logs: tarmac logs {quoted(made.path)}",
        )
    if resumed is not None:
        return runs.resolve(resumed, directory)
    launch = job.env[jobs.LAUNCH]
    matches = [run for run in runs.list_runs(directory)[0] if run.record.launch == launch]
    if not matches:
        raise TarmacError(
            f"the training on {place.on} has succeeded, but its run is not in {directory}",
            hint="Use a directory that all nodes see: --output DIR",
        )
    return matches[0]


def _recorded(run: Run) -> str:
    """Return a run's workload, after the checks that a workload on a command line would skip."""
    from tarmac.files import refuse_foreign_python, refuse_going_on

    reference = str(run.record.configuration["workload"])
    again = quoted("tarmac", "train", reference, "--resume", run.path)
    refuse_foreign_python(reference, run.path / "run.json", again=again)
    refuse_going_on(run.path / "run.json", is_named=False, again=again)
    return reference


def _passed_on(ctx: click.Context) -> Iterator[str]:
    """Yield the options to pass on, as words of a command line."""
    for parameter in given_options(ctx):
        if parameter.name in _NOT_PASSED_ON:
            continue
        name, value = parameter.opts[0], ctx.params[str(parameter.name)]
        if isinstance(parameter, click.Option) and parameter.is_flag:
            yield name
        elif parameter.multiple:
            for part in value:
                yield from (name, part if isinstance(part, str) else "=".join(part))
        else:
            yield f"{name}={value}"

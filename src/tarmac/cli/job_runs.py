"""Runs of jobs: created after all checks, resumed, or started in the background."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tarmac.cli.job_work import headline
from tarmac.errors import RequestError, quoted
from tarmac.wording import in_one_line

if TYPE_CHECKING:
    from tarmac.formats import Reading
    from tarmac.jobs import Job, JobRun, RunRequest, Task
    from tarmac.settings import Settings


def make_runs(
    read: Sequence[tuple[Reading, Path]],
    request: RunRequest,
    place: Settings,
    *,
    by_job: bool = False,
) -> list[JobRun]:
    """Create the runs of jobs after all of them have passed the checks; see `prepare_job`."""
    from tarmac.jobs import ConversionError, create_run, placed

    at = place.on or "local"
    planned = []
    for reading, base in read:
        for job in reading.jobs:
            try:
                tasks = prepare_job(job, base, request, at, by_job=by_job)
            except ConversionError as error:
                raise placed(error, reading.source) from error
            file = None if reading.source is None else Path(reading.source.name)
            planned.append((job, base, tasks, file))
    return [
        create_run(job, base, tasks, request.output, executor=at, file=file)
        for job, base, tasks, file in planned
    ]


def prepare_job(
    job: Job,
    base: Path,
    request: RunRequest,
    on: str,
    *,
    by_job: bool = False,
) -> Sequence[Task]:
    """Refuse a job that cannot run; return its tasks, none for a pipeline.

    With ``by_job``, the runner is to be a job of the engine that runs the tasks, if possible.
    """
    if job.pipeline is not None:
        from tarmac.hkube import prepare_pipeline

        prepare_pipeline(job, base, request, executor=on, by_job=by_job)
        return ()
    from tarmac.jobs import prepare

    return prepare(job, base, request, executor=on, by_job=by_job)


def refuse_rest(run: JobRun, request: RunRequest) -> None:
    """Refuse to resume a run whose remaining tasks cannot run."""
    if run.job.pipeline is not None:
        prepare_job(run.job, run.base, request, run.executor)
        return
    from tarmac.jobs import refuse_tasks, tasks_left

    refuse_tasks(tasks_left(run), run.base, request, executor=run.executor)


def resumed(
    reference: str,
    request: RunRequest,
    options: Mapping[str, str | Path | None],
    *,
    quiet: bool,
) -> JobRun:
    """Return the run to resume; refuse options that would change its job."""
    from tarmac.files import refuse_foreign
    from tarmac.jobs import changed_file, find_run, recall_secrets

    for name, value in options.items():
        if value is not None:
            raise RequestError(
                f"{name} cannot be changed in a resumed run",
                hint=f"Start a new one: tarmac run FILE {name} {quoted(value)}",
            )
    run = find_run(reference, request.output)
    refuse_foreign(
        run.path / "job-run.json",
        what="its commands",
        again="start a new run from its job file: tarmac run FILE",
    )
    recall_secrets(run)
    file = changed_file(run.path)
    if file is not None and not quiet:
        click.echo(
            f"note: {in_one_line(str(file))} has changed since; the run keeps its original job. "
            f"To run the new content: tarmac run {quoted(file)}",
            err=True,
        )
    return run if request.on is None else dataclasses.replace(run, executor=request.on)


def check_result(result: Path, jobs: Sequence[Job]) -> None:
    """Refuse a result's file if the jobs have no result, or if it cannot be written there."""
    if [job.pipeline is not None for job in jobs] != [True]:
        raise RequestError(
            f"--result {result}: only one HKube algorithm or pipeline has a result",
            hint="Tasks of other jobs keep files with: outputs",
        )
    if result.is_dir():
        raise RequestError(f"--result {result} is a folder")
    if not result.absolute().parent.is_dir():
        raise RequestError(f"--result {result}: there is no folder {result.parent}")


def refuse_second_runner(runs: Sequence[JobRun]) -> None:
    """Refuse runs that already have a runner, here or in a queue."""
    from tarmac.jobs import read_status

    for run in runs:
        state = read_status(run.path).state
        if state in ("running", "queued"):
            reason = "is active already" if state == "running" else "waits for its runner already"
            raise RequestError(f"{run.path.name} {reason}", hint="tarmac ps")


def _asked_for(run: JobRun) -> JobRun:
    """Return a run with its tasks; for a pipeline on a cluster, with the tasks that it requests."""
    if run.job.pipeline is None or run.executor == "local":
        return run
    from tarmac.hkube import asked_of_cluster

    tasks = asked_of_cluster(run.job, run.base, run.executor)
    return dataclasses.replace(run, tasks=tasks)


def submit_runs(runs: Sequence[JobRun], request: RunRequest, *, as_json: bool) -> None:
    """Start runs in the background; the default place of each runner is that of its tasks."""
    from tarmac.jobs import start_runner, submit_runner, why_no_runner_job

    rows = []
    for run in map(_asked_for, runs):
        why_not = why_no_runner_job(run, request)
        job = None
        if request.runner == "engine" or (request.runner is None and why_not is None):
            job = submit_runner(run, request)
        else:
            start_runner(run, request)
        rows.append({"path": str(run.path), "runner_job": job})
        if not as_json:
            at = f"  runner: job {job}" if job else ""
            click.echo(f"{headline(run)}{at}")
            if request.runner is None and run.executor != "local" and why_not is not None:
                click.echo(f"its runner is on this machine: {why_not}", err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        click.echo(
            "Watch it: tarmac ps, tarmac logs latest --follow. Cancel it: tarmac cancel latest"
        )

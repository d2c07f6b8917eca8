"""The Python API for jobs of any kind and format: `run`, and `submit` for the background."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac import hkube, jobs
from tarmac.errors import RequestError
from tarmac.formats import read_the_job
from tarmac.settings import Settings, chosen

if TYPE_CHECKING:
    from tarmac.jobs import Handle, Job, JobRun, Reporter, RunnerPlace, RunRequest, Secret, Task


def submit(
    job: Job | str | Path,
    *,
    base: str | Path = ".",
    output: str | Path | None = None,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    secrets: Mapping[str, Secret] | None = None,
    on: str | None = None,
    profile: str | None = None,
    runner: RunnerPlace | None = None,
) -> Handle:
    r"""Start a job in the background and return at once.

    Args:
        job: The job, or the path of a job file in any format that ``tarmac run`` takes.
        base: Directory of a job's relative paths. A job file's paths start from its directory.
        output: Directory in which to create the run. Default: ``TARMAC_RUNS`` or ``./runs``.
        concurrency: Maximum number of tasks at a time. Default: as many as fit.
        fake_gpus: Number of GPUs to pretend, to try a job without them. Default 0: real GPUs.
        secrets: Secrets by name, which override those of the user's configuration.
        on: Executor of the tasks, one of `executor_names`. Default: the user's settings, else this
            machine.
        profile: Name of a profile in the user's settings. Default: none.
        runner: ``here``: a process of this machine hands out the tasks. ``engine``: a job of the
            cluster does. Default: the settings, else ``engine`` where possible.

    Raises:
        RequestError: The request cannot be carried out; nothing was started.

    Example:
        >>> import tarmac
        >>> from tarmac.jobs import Job
        >>> handle = tarmac.submit(Job(name="hello", command=("echo", "hello")))  # doctest: +SKIP
        >>> handle.result(timeout=60); handle.stdout()  # doctest: +SKIP
        'hello\n'
    """
    request = jobs.RunRequest(
        output=None if output is None else Path(output),
        concurrency=concurrency,
        fake_gpus=fake_gpus,
        secrets=jobs.read_secret_mapping() | dict(secrets or {}),
        on=on,
        profile=profile,
        runner=runner,
    )
    settings = chosen(request.on, request.profile)
    place = request.runner or settings.runner
    made = _make_run(*_read(job, base), request, settings, by_job=place != "here")
    if made.job.pipeline is not None and made.executor != "local":
        tasks = hkube.asked_of_cluster(made.job, made.base, made.executor)
        made = dataclasses.replace(made, tasks=tasks)
    if place == "engine" or (place is None and not jobs.why_no_runner_job(made, request)):
        jobs.submit_runner(made, request)
        return jobs.Handle(made.path)
    return jobs.start_runner(made, request)


def run(
    job: Job | str | Path,
    *,
    base: str | Path = ".",
    output: str | Path | None = None,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    secrets: Mapping[str, Secret] | None = None,
    on: str | None = None,
    profile: str | None = None,
    reporter: Reporter | None = None,
) -> Handle:
    r"""Run a job to its end. Local tasks end with this process, a cluster's tasks do not.

    Args:
        job: The job, or the path of a job file; see `submit`.
        base: Directory of a job's relative paths; see `submit`.
        output: Directory in which to create the run.
        concurrency: Maximum number of tasks at a time.
        fake_gpus: Number of GPUs to pretend, to try a job without them. Default 0: real GPUs.
        secrets: Secrets by name; see `submit`.
        on: Executor of the tasks; see `submit`.
        profile: Name of a profile in the user's settings. Default: none.
        reporter: Receives the progress; not for pipelines. Default: none.

    Returns:
        The handle of the finished run.

    Raises:
        RequestError: The request cannot be carried out; nothing was started.
        JobFailed: A task failed, or the pipeline did.

    Example:
        >>> import tarmac
        >>> from tarmac.jobs import Job
        >>> tarmac.run(Job(name="hello", command=("echo", "hello"))).stdout()  # doctest: +SKIP
        'hello\n'
    """
    request = jobs.RunRequest(
        output=None if output is None else Path(output),
        concurrency=concurrency,
        fake_gpus=fake_gpus,
        secrets=jobs.read_secret_mapping() | dict(secrets or {}),
        on=on,
        profile=profile,
    )
    job, base, file = _read(job, base)
    if job.pipeline is not None and reporter is not None:
        raise RequestError(
            f"{job.name} is a pipeline, which does not support a reporter",
            hint="tarmac.hkube.run_pipeline(job, observer=...)",
        )
    made = _make_run(job, base, file, request, chosen(request.on, request.profile))
    if job.pipeline is None:
        jobs.work_on(made, reporter or jobs.Silent(), request)
    else:
        hkube.work_on_pipeline(made, hkube.Silent(), request)
    handle = jobs.Handle(made.path)
    handle.result()
    return handle


def _read(job: Job | str | Path, base: str | Path) -> tuple[Job, Path, Path | None]:
    """Return a job, the directory of its relative paths, and its file; None without a file."""
    if isinstance(job, jobs.Job):
        return job, Path(base), None
    path = Path(job)
    return read_the_job(path, environment=os.environ), path.resolve().parent, path


def _make_run(
    job: Job,
    base: Path,
    file: Path | None,
    request: RunRequest,
    settings: Settings,
    *,
    by_job: bool = False,
) -> JobRun:
    job, on = settings.applied_to(job), settings.on or "local"
    tasks: Sequence[Task] = ()
    if job.pipeline is None:
        tasks = jobs.prepare(job, base, request, executor=on, by_job=by_job)
    else:
        hkube.prepare_pipeline(job, base, request, executor=on, by_job=by_job)
    return jobs.create_run(job, base, tasks, request.output, executor=on, file=file)

"""A job's run: made, found again, and worked on."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from tarmac.errors import RequestError, TarmacError
from tarmac.files import storage_errors
from tarmac.jobs.executors import Site, find_executor
from tarmac.jobs.inputs import refuse_missing_inputs
from tarmac.jobs.kind import JOB, reserved
from tarmac.jobs.model import Job
from tarmac.jobs.outputs import refuse_unknown_stores
from tarmac.jobs.plan import plan_tasks
from tarmac.jobs.record import JobRecord, read_record, write_record
from tarmac.jobs.run_files import SHARED
from tarmac.jobs.scheduler import run_tasks
from tarmac.jobs.secrets import missing_secrets
from tarmac.jobs.status import forget_runner, note_runner, read_status
from tarmac.runs import Catalogue, default_output

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from tarmac.jobs.executors import Outcome
    from tarmac.jobs.model import Secret
    from tarmac.jobs.plan import Task
    from tarmac.jobs.scheduler import Reporter
    from tarmac.jobs.status import RunStatus
    from tarmac.runs import BrokenRun

__all__ = ["JobRun", "create_run", "find_run", "list_statuses", "prepare", "work_on"]


@dataclasses.dataclass(frozen=True)
class JobRun:
    """A job's run: its directory, the job, and its tasks.

    Attributes:
        path: With ``job-run.json``, ``journal.jsonl`` and ``tasks/``.
        job: As it was submitted.
        base: The job file's directory, which its paths start from.
        tasks: In the order of the file.
        executor: Where they run, one of `executor_names`.
    """

    path: Path
    job: Job
    base: Path
    tasks: Sequence[Task]
    executor: str = "local"


def prepare(
    job: Job,
    base: Path,
    mapping: Mapping[str, Secret],
    *,
    fake_gpus: int = 0,
    executor: str = "local",
) -> tuple[Task, ...]:
    """Expand a job, and refuse what cannot be done before anything starts.

    Args:
        job: What was asked.
        base: What its paths start from.
        mapping: What names of secrets stand for here.
        fake_gpus: GPUs to pretend.
        executor: Where tasks are to run, one of `executor_names`.

    Raises:
        RequestError: The job says that it cannot be run here, a task can never fit, needs a secret
            or an input that is not there, or what is not known here.
    """
    if job.refusals:
        first, *rest = job.refusals
        raise RequestError(f"{job.name} cannot be run here: {first}", hint="\n".join(rest) or None)
    kind = find_executor(executor)
    tasks = tuple(plan_tasks(job, base))
    missing_secrets(tasks, os.environ, mapping, base)
    for task in tasks:
        refuse_unknown_stores(task.outputs)
        if not task.needs:
            refuse_missing_inputs(task.inputs, base)
    kind.refuse(tasks, fake_gpus)
    return tasks


def create_run(
    job: Job,
    base: Path,
    tasks: Sequence[Task],
    output: Path | None = None,
    *,
    executor: str = "local",
) -> JobRun:
    """Make a run's directory.

    Args:
        job: As it is asked for.
        base: What its paths start from.
        tasks: What it was expanded to.
        output: Where runs are made; by default `tarmac.runs.default_output`.
        executor: Where its tasks run, now and when it is resumed.

    Raises:
        StorageError: It cannot be made.
    """
    now = datetime.now(UTC)
    name = f"{job.name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    path = (output or default_output()).resolve() / name
    with storage_errors(path):
        (path / "tasks").mkdir(parents=True)
    record = JobRecord(
        name=job.name,
        created_at=now,
        base=str(base.resolve()),
        num_tasks=len(tasks),
        executor=executor,
        job=job.model_dump(mode="json", by_alias=True, exclude_unset=True),
    )
    write_record(path, record)
    return JobRun(path, job, base.resolve(), tasks, executor)


def find_run(reference: str, output: Path | None = None) -> JobRun:
    """Find a job's run by its directory, its name, the beginning of its name, or ``latest``.

    Raises:
        RequestError: There is none, or several; or its tasks are others by now.
        TarmacError: Its record is damaged.
    """
    path = Catalogue((JOB,), output).find(reference).path
    record = read_record(path)
    try:
        job, base = Job.model_validate(record.job), Path(record.base)
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise TarmacError(f"{path}: the job of job-run.json is damaged: {said}") from error
    tasks = tuple(plan_tasks(job, base))
    if len(tasks) != record.num_tasks:
        raise RequestError(
            f"run {path.name} has {record.num_tasks} tasks, and its job makes {len(tasks)} now",
            hint="The files that its sweep is over have changed; start a new run.",
        )
    return JobRun(path.resolve(), job, base, tasks, record.executor)


def list_statuses(output: Path | None = None) -> tuple[list[RunStatus], list[BrokenRun]]:
    """Return all jobs' runs in a directory, the newest first, and those that cannot be read.

    Args:
        output: Where runs lie; by default `tarmac.runs.default_output`.
    """
    catalogue = Catalogue((JOB,), (output or default_output()).resolve())
    statuses, broken = catalogue.read(lambda found: read_status(found.path))
    statuses.sort(key=lambda status: status.created_at, reverse=True)
    return statuses, broken


def work_on(
    run: JobRun,
    reporter: Reporter,
    *,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    stop: Callable[[], bool] = lambda: False,
    mapping: Mapping[str, Secret] | None = None,
) -> Counter[Outcome]:
    """Run what has not succeeded yet; see `run_tasks`.

    Raises:
        RequestError: Another process works on the run.
    """
    site = Site(
        tasks=run.tasks,
        base=run.base,
        shared=run.path / SHARED,
        secrets=mapping or {},
        fake_gpus=fake_gpus,
    )
    kind = find_executor(run.executor)
    with reserved(run.path), contextlib.closing(kind.open(site)) as executor:
        note_runner(run.path, os.getpid())
        try:
            return run_tasks(
                run.tasks,
                run.path,
                executor,
                reporter,
                concurrency=concurrency or run.job.concurrency,
                stop=stop,
            )
        finally:
            forget_runner(run.path)

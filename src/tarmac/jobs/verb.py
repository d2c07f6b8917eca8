"""Makes a run of a job, and works on it: the verb."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from pydantic import ValidationError

from tarmac.environments import find_engine
from tarmac.errors import RequestError, TarmacError
from tarmac.files import storage_errors, write_json
from tarmac.jobs.executors import LocalExecutor
from tarmac.jobs.inputs import refuse_missing_inputs
from tarmac.jobs.machine import read_machine
from tarmac.jobs.model import Container, Job
from tarmac.jobs.outputs import refuse_unknown_stores
from tarmac.jobs.plan import plan_tasks
from tarmac.jobs.run_files import SHARED
from tarmac.jobs.scheduler import run_tasks
from tarmac.jobs.secrets import missing_secrets, secret_variables
from tarmac.jobs.status import forget_runner, note_runner, read_record, run_directories
from tarmac.runs import default_output

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping, Sequence

    from tarmac.jobs.executors import Outcome
    from tarmac.jobs.model import Secret
    from tarmac.jobs.plan import Task
    from tarmac.jobs.scheduler import Watcher

__all__ = ["JobRun", "create_run", "find_run", "prepare", "work_on"]


@dataclasses.dataclass(frozen=True)
class JobRun:
    """A job's run: its directory, the job, and its tasks.

    Attributes:
        path: With ``job-run.json``, ``journal.jsonl`` and ``tasks/``.
        job: As it was submitted.
        base: The job file's directory, which its paths start from.
        tasks: In the order of the file.
    """

    path: Path
    job: Job
    base: Path
    tasks: Sequence[Task]


def prepare(
    job: Job, base: Path, mapping: Mapping[str, Secret], *, fake_gpus: int = 0
) -> tuple[Task, ...]:
    """Expand a job, and refuse what cannot be done before anything starts.

    Args:
        job: What was asked.
        base: What its paths start from.
        mapping: What names of secrets stand for here.
        fake_gpus: GPUs to pretend.

    Raises:
        RequestError: The job says that it cannot be run here, a task can never fit, needs a secret
            or an input that is not there, or what is not known here.
    """
    if job.refusals:
        first, *rest = job.refusals
        raise RequestError(f"{job.name} cannot be run here: {first}", hint="\n".join(rest) or None)
    tasks = tuple(plan_tasks(job, base))
    missing_secrets(tasks, os.environ, mapping, base)
    containers = (t.environment for t in tasks if isinstance(t.environment, Container))
    for engine in dict.fromkeys(container.engine for container in containers):
        find_engine(engine)
    for task in tasks:
        refuse_unknown_stores(task.outputs)
        if not task.needs:
            refuse_missing_inputs(task.inputs, base)
    read_machine(fake_gpus=fake_gpus).refuse_what_never_fits(tasks)
    return tasks


def create_run(job: Job, base: Path, tasks: Sequence[Task], output: Path | None = None) -> JobRun:
    """Make a run's directory.

    Raises:
        StorageError: It cannot be made.
    """
    now = datetime.now(UTC)
    name = f"{job.name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    path = (output or default_output()).resolve() / name
    with storage_errors(path):
        (path / "tasks").mkdir(parents=True)
    write_json(
        path / "job-run.json",
        {
            "schema_version": 1,
            "name": job.name,
            "created_at": now.isoformat(),
            "base": str(base.resolve()),
            "num_tasks": len(tasks),
            "job": job.model_dump(mode="json", by_alias=True, exclude_unset=True),
        },
    )
    return JobRun(path, job, base.resolve(), tasks)


def find_run(reference: str, output: Path | None = None) -> JobRun:
    """Find a job's run by its directory, its name, the beginning of its name, or ``latest``.

    Raises:
        RequestError: There is none, or several.
    """
    root = output or default_output()
    found = [Path(reference)] if (Path(reference) / "job-run.json").exists() else []
    if not found:
        names = run_directories(root)
        found = names[-1:] if reference == "latest" else []
        found = found or [path for path in names if path.name.startswith(reference)]
    if len(found) != 1:
        problem = "no job's run" if not found else f"{len(found)} runs"
        raise RequestError(f"{problem} in {root} by {reference!r}")
    record = read_record(found[0])
    try:
        job, base = Job.model_validate(record.job), Path(record.base)
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise TarmacError(f"{found[0]}: the job of job-run.json is damaged: {said}") from error
    tasks = tuple(plan_tasks(job, base))
    if len(tasks) != record.num_tasks:
        raise RequestError(
            f"run {found[0].name} has {record.num_tasks} tasks, and its job makes {len(tasks)} now",
            hint="The files that its sweep is over have changed; start a new run.",
        )
    return JobRun(found[0].resolve(), job, base, tasks)


def work_on(
    run: JobRun,
    watcher: Watcher,
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
    lock = FileLock(run.path / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise RequestError(f"another process works on {run.path.name}") from error
    containers = [t.environment for t in run.tasks if isinstance(t.environment, Container)]
    machine = read_machine(fake_gpus=fake_gpus)
    with (
        lock,
        contextlib.closing(
            LocalExecutor(
                machine,
                run.base,
                run.path / SHARED,
                containers=containers,
                mapping=mapping,
                secret_variables=secret_variables(run.tasks, mapping or {}),
            )
        ) as executor,
    ):
        note_runner(run.path, os.getpid())
        try:
            return run_tasks(
                run.tasks,
                run.path,
                executor,
                watcher,
                concurrency=concurrency or run.job.concurrency,
                stop=stop,
            )
        finally:
            forget_runner(run.path)

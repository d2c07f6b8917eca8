"""The run of a job: its creation, its lookup, and the work on its tasks."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.executors import Outcome, Site, find_executor
from tarmac.files import Lock, new_directory, storage_errors, validated
from tarmac.jobs.kind import JOB, reserved
from tarmac.jobs.progress import Reporter
from tarmac.jobs.record import RECORD, JobRecord, digest_of, read_record, write_record
from tarmac.jobs.request import DEFAULT_REQUEST, RunRequest
from tarmac.jobs.runner_record import forget_runner, is_asked_to_end, note_runner
from tarmac.jobs.scheduler import run_tasks
from tarmac.jobs.status import read_status, tasks_left_with_engine
from tarmac.masking import hide_urls, remember_environment, without_known
from tarmac.processes import identify
from tarmac.runs import Catalogue, default_output
from tarmac.tasks.model import Job
from tarmac.tasks.plan import Task, plan_tasks
from tarmac.tasks.run_files import SHARED
from tarmac.tasks.runner_notes import mark_runner, own_number
from tarmac.wording import counted


@dataclasses.dataclass(frozen=True)
class JobRun:
    """A job's run: its directory, the job, and its tasks.

    Attributes:
        path: Directory of the run, with ``job-run.json``, ``journal.jsonl`` and ``tasks/``.
        job: Job as it was submitted.
        base: Directory of the job file, which the job's paths start from.
        tasks: Tasks in the order of the file; empty for a pipeline, which creates tasks while it
            runs.
        executor: Name of the executor that runs the tasks, one of `executor_names`.
    """

    path: Path
    job: Job
    base: Path
    tasks: Sequence[Task]
    executor: str = "local"


def create_run(
    job: Job,
    base: Path,
    tasks: Sequence[Task],
    output: Path | None = None,
    *,
    executor: str = "local",
    file: Path | None = None,
) -> JobRun:
    """Create the directory of a run.

    Args:
        job: Job as it was submitted.
        base: Directory that the job's paths start from.
        tasks: Tasks that the job was expanded to; empty for a pipeline.
        output: Directory where runs are created; by default `tarmac.runs.default_output`.
        executor: Name of the executor, also for a resume. Default ``local``.
        file: Path of the job file, so that a resume can notice changes. None: no single file.

    Raises:
        StorageError: The directory cannot be created.
    """
    now = datetime.now(UTC)
    name = f"{job.name}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    path = (output or default_output()).resolve() / name
    record = JobRecord(
        name=job.name,
        created_at=now,
        base=str(base.resolve()),
        num_tasks=None if job.pipeline is not None else len(tasks),
        executor=executor,
        job=job.model_dump(mode="json", by_alias=True, exclude_unset=True),
        file=None if file is None else str(file.resolve()),
        file_sha256=None if file is None else digest_of(file),
    )
    with storage_errors(path), new_directory(path) as made:
        (made / "tasks").mkdir()
        write_record(made, record)
    return JobRun(path, job, base.resolve(), tasks, executor)


def find_run(reference: str, output: Path | None = None) -> JobRun:
    """Return a job's run by its directory, its name, the beginning of its name, or ``latest``.

    Raises:
        RequestError: No run matches, or several do; or the job now has another number of tasks.
        TarmacError: The run's record is damaged.
    """
    path = Catalogue((JOB,), output).find(reference).path
    record = read_record(path)
    job, base = validated(path / RECORD, Job, record.job, "job"), Path(record.base)
    if job.pipeline is not None:
        return JobRun(path.resolve(), job, base, (), record.executor)
    tasks = tuple(plan_tasks(job, base))
    if len(tasks) != record.num_tasks:
        raise RequestError(
            f"run {path.name} has {counted(record.num_tasks, 'task')}, but its job now makes "
            f"{len(tasks)}",
            hint="The files of its sweep have changed; start a new run.",
        )
    return JobRun(path.resolve(), job, base, tasks, record.executor)


def tasks_left(run: JobRun) -> tuple[Task, ...]:
    """Return the tasks of a run that have not succeeded."""
    done = {task.name for task in read_status(run.path).tasks if task.state == "succeeded"}
    return tuple(task for task in run.tasks if task.name not in done)


@contextlib.contextmanager
def working_on(run: Path) -> Iterator[Lock]:
    """Take a run's lock and mark this process as its runner; yield the lock.

    Args:
        run: Directory of the run to lock.

    Raises:
        RequestError: Another process works on the run, or has removed it.
    """
    with reserved(run) as lock:
        # Tasks inherit these variables and may print them.
        remember_environment(os.environ)
        note_runner(run, os.getpid())
        if (number := own_number(run)) is not None:
            # Only with the lock: the run is then always either queued or running.
            mark_runner(run, number, "begun")
        try:
            yield lock
        finally:
            # A runner that took the run over has recorded itself.
            if not lock.is_lost:
                forget_runner(run)


def note_outcome(run: Path, outcome: Literal["succeeded", "failed"] | None, reason: str) -> None:
    """Record the outcome of a pipeline; None while it runs.

    Args:
        run: Directory of the pipeline's run.
        outcome: Outcome of the pipeline; None while it is running.
        reason: Why the pipeline failed; empty otherwise.

    Raises:
        StorageError: The record cannot be written.
    """
    record, reason = read_record(run), hide_urls(without_known(reason))
    if (record.outcome, record.reason) != (outcome, reason):
        write_record(run, record.model_copy(update={"outcome": outcome, "reason": reason}))


def work_on(
    run: JobRun,
    reporter: Reporter,
    request: RunRequest = DEFAULT_REQUEST,
    *,
    stop: Callable[[], bool] = lambda: False,
    detach: Callable[[], bool] = lambda: False,
) -> Counter[Outcome]:
    """Run the tasks that have not succeeded yet; see `run_tasks`.

    Args:
        run: Run to work on; tasks that have succeeded are left out.
        reporter: Reporter that is called as attempts begin, are retried, and end.
        request: Options of the run, such as its concurrency. Default: `DEFAULT_REQUEST`.
        stop: Returns whether to end all running attempts and stop.
        detach: Returns whether to leave queued and running attempts to the engine.

    Raises:
        RequestError: Another process works on the run, or another engine still has its tasks.
        TarmacError: Another process has taken the run over, because this process seemed dead to it.
    """
    site = Site(
        tasks=run.tasks,
        run=run.path,
        base=run.base,
        shared=run.path / SHARED,
        secrets=request.secrets,
        fake_gpus=request.fake_gpus,
        concurrency=request.concurrency or run.job.concurrency,
        keep_going=request.keep_going,
    )
    kind = find_executor(run.executor)
    myself = identify(os.getpid())
    with working_on(run.path) as lock:
        note_executor(run)
        with contextlib.closing(kind.open(site)) as executor:
            counts = run_tasks(
                run.tasks,
                run.path,
                executor,
                reporter,
                concurrency=site.concurrency,
                stop=lambda: (
                    stop()
                    or (lock.is_lost and not executor.queues)
                    or is_asked_to_end(run.path, myself)
                ),
                # Only the current lease holder may use the engine.
                detach=lambda: detach() or lock.is_lost,
            )
        refuse_lost_lock(run.path, lock)
        return counts


def refuse_lost_lock(run: Path, lock: Lock) -> None:
    """Raise a TarmacError where another process has taken a run over; see `work_on`."""
    if lock.is_lost:
        raise TarmacError(
            f"another process has taken over {run.name}, because this one did not respond in time",
            hint="See it: tarmac ps",
        )


def note_executor(run: JobRun) -> None:
    """Record the executor of a run's tasks.

    Raises:
        RequestError: Another engine still has tasks of the run.
    """
    record = read_record(run.path)
    if record.executor == run.executor:
        return
    if left := tasks_left_with_engine(run.path):
        raise RequestError(
            f"{run.path.name} has {counted(left, 'task')} still on {record.executor}",
            hint=f"Resume it there: tarmac run --resume {quoted(run.path)}\n"
            f"Or cancel them first: tarmac cancel {quoted(run.path)}",
        )
    write_record(run.path, record.model_copy(update={"executor": run.executor}))

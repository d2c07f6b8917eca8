"""A job's run: made, found again, and worked on."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.environments import engine_program, refuse_unreadable
from tarmac.errors import RequestError, TarmacError, quoted
from tarmac.files import new_directory, storage_errors, validated
from tarmac.jobs.executors import Site, find_executor
from tarmac.jobs.executors.staging import environment_spec
from tarmac.jobs.inputs import refuse_missing_inputs
from tarmac.jobs.kind import JOB, reserved
from tarmac.jobs.model import Conda, Container, Job, Project, Venv
from tarmac.jobs.outputs import refuse_unknown_stores
from tarmac.jobs.plan import plan_tasks
from tarmac.jobs.record import RECORD, JobRecord, digest_of, read_record, write_record
from tarmac.jobs.run_files import SHARED
from tarmac.jobs.runner_notes import mark_runner, own_number
from tarmac.jobs.runner_watch import RunnerWatch
from tarmac.jobs.scheduler import run_tasks
from tarmac.jobs.secrets import missing_secrets
from tarmac.jobs.status import (
    forget_runner,
    is_asked_to_end,
    note_runner,
    read_status,
    tasks_left_with_engine,
)
from tarmac.jobs.workload_files import refuse_missing_workload
from tarmac.masking import hide_urls, remember_environment, without_known
from tarmac.processes import identify
from tarmac.runs import Catalogue, default_output
from tarmac.wording import counted

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Literal

    from tarmac.files import Lock
    from tarmac.jobs.executors import Outcome
    from tarmac.jobs.model import Secret
    from tarmac.jobs.plan import Task
    from tarmac.jobs.progress import Reporter
    from tarmac.jobs.status import RunStatus
    from tarmac.runs import BrokenRun


@dataclasses.dataclass(frozen=True)
class JobRun:
    """A job's run: its directory, the job, and its tasks.

    Attributes:
        path: With ``job-run.json``, ``journal.jsonl`` and ``tasks/``.
        job: As it was submitted.
        base: The job file's directory, which its paths start from.
        tasks: In the order of the file; none of a pipeline, whose tasks come as it goes.
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
    by_job: bool = False,
) -> tuple[Task, ...]:
    """Expand a job, and refuse what cannot be done before anything starts.

    Args:
        job: Job to expand into tasks and to check.
        base: What its paths start from.
        mapping: What names of secrets stand for here.
        fake_gpus: Number of GPUs to pretend, to try a job without them. Default 0: real GPUs.
        executor: Where tasks are to run, one of `executor_names`.
        by_job: Whether the run's runner is to be a job there, where it can be one.

    Raises:
        RequestError: The job says that it cannot be run here, a task can never fit, needs a secret
            or an input that is not there, or what is not known here.
    """
    if job.refusals:
        first, *rest = job.refusals
        raise RequestError(f"{job.name} cannot be run here: {first}", hint="\n".join(rest) or None)
    tasks = tuple(plan_tasks(job, base))
    refuse_tasks(tasks, base, mapping, fake_gpus=fake_gpus, executor=executor, by_job=by_job)
    return tasks


def refuse_tasks(
    tasks: Sequence[Task],
    base: Path,
    mapping: Mapping[str, Secret],
    *,
    fake_gpus: int = 0,
    executor: str = "local",
    by_job: bool = False,
) -> None:
    """Raise a RequestError where one of a job's tasks cannot be done; see `prepare`."""
    for check in _checks(tasks, base, mapping, executor, is_pretending=fake_gpus > 0):
        check()
    kind = find_executor(executor)
    afar = kind.refuse_afar if by_job else None
    (afar or kind.refuse)(tasks, fake_gpus)


def tasks_left(run: JobRun) -> tuple[Task, ...]:
    """Return the tasks of a run that have not succeeded."""
    done = {task.name for task in read_status(run.path).tasks if task.state == "succeeded"}
    return tuple(task for task in run.tasks if task.name not in done)


def problems_beforehand(
    tasks: Sequence[Task],
    base: Path,
    mapping: Mapping[str, Secret],
    *,
    executor: str = "local",
    is_pretending: bool = False,
) -> list[str]:
    """Return why `prepare` would refuse tasks, but for what only the place where they run knows.

    Args:
        tasks: Tasks of a job, already expanded.
        base: What its paths start from.
        mapping: What names of secrets stand for here.
        executor: Where they are to run.
        is_pretending: Whether its GPUs are pretended.
    """
    problems: dict[str, None] = {}
    for check in _checks(tasks, base, mapping, executor, is_pretending=is_pretending):
        try:
            check()
        except RequestError as error:
            problems[str(error)] = None
    return [*problems]


def _checks(
    tasks: Sequence[Task],
    base: Path,
    mapping: Mapping[str, Secret],
    executor: str,
    *,
    is_pretending: bool,
) -> Iterator[Callable[[], object]]:
    """Yield what refuses tasks that cannot succeed, by this machine's knowledge alone."""
    has_named = find_executor(executor).has_secrets
    yield partial(missing_secrets, tasks, os.environ, mapping, base, has_named=has_named)
    yield partial(_refuse_missing_workloads, tasks, base, executor=executor)
    if executor == "local":
        engines = (t.environment.engine for t in tasks if isinstance(t.environment, Container))
        for engine in dict.fromkeys(engines):
            yield partial(engine_program, engine)
    for task in tasks:
        yield partial(refuse_unknown_stores, task.outputs)
        if not task.needs:
            yield partial(refuse_missing_inputs, task.inputs, base)
    is_here = executor == "local"
    yield partial(_refuse_environments, tasks, base, is_here=is_here, has_driver=not is_pretending)


def _refuse_environments(
    tasks: Sequence[Task], base: Path, *, is_here: bool, has_driver: bool
) -> None:
    seen = set()
    for task in tasks:
        environment = task.environment
        # What a task needs may make the files of its environment.
        if task.needs or not isinstance(environment, (Conda, Project, Venv)):
            continue
        if isinstance(environment, Venv) and environment.needs_driver:
            if not is_here:
                # Its node's driver chooses among them.
                continue
            environment = environment.chosen(with_gpus=has_driver)
        content = environment.model_dump_json()
        if content in seen:
            continue
        seen.add(content)
        try:
            refuse_unreadable(environment_spec(environment), base, is_here=is_here)
        except RequestError as error:
            raise RequestError(f"task {task.name!r}: {error.message}", hint=error.hint) from error


def _refuse_missing_workloads(tasks: Sequence[Task], base: Path, *, executor: str) -> None:
    seen = set()
    for task in tasks:
        # An image may have workloads of its own.
        if not task.trains or isinstance(task.environment, Container):
            continue
        reference = task.train_words[0]
        if reference in seen:
            continue
        seen.add(reference)
        try:
            refuse_missing_workload(reference, task.inputs, base, is_here=executor == "local")
        except RequestError as error:
            raise RequestError(f"task {task.name!r}: {error.message}", hint=error.hint) from error


def create_run(
    job: Job,
    base: Path,
    tasks: Sequence[Task],
    output: Path | None = None,
    *,
    executor: str = "local",
    file: Path | None = None,
) -> JobRun:
    """Make a run's directory.

    Args:
        job: As it is asked for.
        base: What its paths start from.
        tasks: What it was expanded to; none of a pipeline.
        output: Where runs are made; by default `tarmac.runs.default_output`.
        executor: Where its tasks run, now and when it is resumed.
        file: The job file, so that a resume can tell that it has changed since.

    Raises:
        StorageError: It cannot be made.
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
    """Find a job's run by its directory, its name, the beginning of its name, or ``latest``.

    Raises:
        RequestError: There is none, or several; or its tasks are others by now.
        TarmacError: Its record is damaged.
    """
    path = Catalogue((JOB,), output).find(reference).path
    record = read_record(path)
    job, base = validated(path / RECORD, Job, record.job, "job"), Path(record.base)
    if job.pipeline is not None:
        return JobRun(path.resolve(), job, base, (), record.executor)
    tasks = tuple(plan_tasks(job, base))
    if len(tasks) != record.num_tasks:
        raise RequestError(
            f"run {path.name} has {counted(record.num_tasks, 'task')}, and its job makes "
            f"{len(tasks)} now",
            hint="The files that its sweep is over have changed; start a new run.",
        )
    return JobRun(path.resolve(), job, base, tasks, record.executor)


def list_statuses(output: Path | None = None) -> tuple[list[RunStatus], list[BrokenRun]]:
    """Return all jobs' runs in a directory, the newest first, and those that cannot be read.

    Args:
        output: Where runs lie; by default `tarmac.runs.default_output`.
    """
    catalogue = Catalogue((JOB,), (output or default_output()).resolve())
    runners = RunnerWatch()
    statuses, broken = catalogue.read(lambda found: read_status(found.path, runners=runners))
    statuses.sort(key=lambda status: status.created_at, reverse=True)
    return statuses, broken


@contextlib.contextmanager
def working_on(run: Path) -> Iterator[Lock]:
    """Be the process that works on a run, as its status tells; gives what keeps others off.

    Args:
        run: Directory of the run, which is locked meanwhile.

    Raises:
        RequestError: Another process works on it, or has removed it.
    """
    with reserved(run) as lock:
        # Its tasks inherit them, and what they print may have them.
        remember_environment(os.environ)
        note_runner(run, os.getpid())
        if (number := own_number(run)) is not None:
            # Not before the run is this process's: it is always either queued or at work.
            mark_runner(run, number, "begun")
        try:
            yield lock
        finally:
            # Who has taken it over has noted itself.
            if not lock.is_lost:
                forget_runner(run)


def note_outcome(run: Path, outcome: Literal["succeeded", "failed"] | None, reason: str) -> None:
    """Write down how a pipeline has ended; None while it is at work.

    Args:
        run: Directory of the pipeline's run.
        outcome: Outcome of the pipeline; None while it is running.
        reason: Why it has failed.

    Raises:
        StorageError: It cannot be written.
    """
    record, reason = read_record(run), hide_urls(without_known(reason))
    if (record.outcome, record.reason) != (outcome, reason):
        write_record(run, record.model_copy(update={"outcome": outcome, "reason": reason}))


def work_on(
    run: JobRun,
    reporter: Reporter,
    *,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    keep_going: bool = False,
    stop: Callable[[], bool] = lambda: False,
    detach: Callable[[], bool] = lambda: False,
    mapping: Mapping[str, Secret] | None = None,
) -> Counter[Outcome]:
    """Run what has not succeeded yet; see `run_tasks`.

    Args:
        run: Run to work on: tasks that have succeeded are left out.
        reporter: Reporter that is called as attempts begin, are retried, and end.
        concurrency: At most so many tasks at once; by default what the job says.
        fake_gpus: Number of GPUs to pretend, to try a job without them. Default 0: real GPUs.
        keep_going: Start what is left also where the first tasks have all failed alike.
        stop: Whether to end all that runs and stop.
        detach: Whether to leave what is queued and runs to the engine that has it.
        mapping: What names of secrets stand for here.

    Raises:
        RequestError: Another process works on the run, or its tasks are still with another engine.
        TarmacError: Another process has taken it over, on whose machine this one seemed dead.
    """
    site = Site(
        tasks=run.tasks,
        run=run.path,
        base=run.base,
        shared=run.path / SHARED,
        secrets=mapping or {},
        fake_gpus=fake_gpus,
        concurrency=concurrency or run.job.concurrency,
        keep_going=keep_going,
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
                # What an engine has is whose who has taken the run over.
                detach=lambda: detach() or lock.is_lost,
            )
        refuse_lost_lock(run.path, lock)
        return counts


def refuse_lost_lock(run: Path, lock: Lock) -> None:
    """Raise a TarmacError where another process has taken a run over; see `work_on`."""
    if lock.is_lost:
        raise TarmacError(
            f"another process has taken over {run.name}, for this one stood still",
            hint="See it: tarmac ps",
        )


def note_executor(run: JobRun) -> None:
    """Write down where a run's tasks run from now on.

    Raises:
        RequestError: Some are still with another engine.
    """
    record = read_record(run.path)
    if record.executor == run.executor:
        return
    if left := tasks_left_with_engine(run.path):
        raise RequestError(
            f"{run.path.name} has {counted(left, 'task')} still with {record.executor}",
            hint=f"Go on there: tarmac run --resume {quoted(run.path)}\n"
            f"Or end them first: tarmac cancel {quoted(run.path)}",
        )
    write_record(run.path, record.model_copy(update={"executor": run.executor}))

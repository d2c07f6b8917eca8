"""The status of a job's run, read from its directory by any process."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from tarmac.files import LeaseWatch, is_held
from tarmac.jobs.journal import read_events
from tarmac.jobs.record import read_record
from tarmac.jobs.runner_record import LOCK, is_long_silent, read_runner_note, silent_s
from tarmac.jobs.runner_watch import RunnerWatch, is_to_begin
from tarmac.jobs.task_status import (
    ACTIVE,
    State,
    TaskEvents,
    TaskStatus,
    have_all_ended,
    outlive_runner,
    state_of_run,
    status_of_task,
)
from tarmac.node import AttemptRecord, read_attempt
from tarmac.processes import ProcessIdentity
from tarmac.runs import AT_WORK


@dataclasses.dataclass(frozen=True)
class RunStatus:
    """The status of a job's run.

    Attributes:
        path: Directory of the run, whose last part is its name.
        state: ``running`` while its runner is alive, also on another machine; ``queued`` while its
            runner job has not begun; ``detached`` without a runner while an engine has tasks of it;
            ``interrupted`` without a runner while tasks are left that no engine has; else
            ``succeeded`` or ``failed``.
        created_at: Time when the run was made, in UTC.
        num_tasks: Number of all tasks; for an active pipeline, of those that have begun.
        tasks: Tasks that have begun or were skipped, in the order of the file.
        runner: Process of the runner while it is alive on this machine, else None.
        reason: Why a pipeline failed; empty otherwise.
        problems: Damaged lines of the journal, which are ignored.
        elsewhere: Process of the runner on another machine, as far as this machine can see.
        silent_s: Seconds since the last heartbeat of a runner on another machine, by clocks that
            may differ; None for a runner here, or one without heartbeats.
        ended_at: Time when the last task ended, in seconds since 1970; None while the run is
            active.
        runner_note: What the engine reports of a runner job that is not working; empty where the
            run no longer needs a runner.
    """

    path: Path
    state: State
    created_at: datetime
    num_tasks: int
    tasks: Sequence[TaskStatus]
    runner: ProcessIdentity | None
    reason: str = ""
    problems: Sequence[str] = ()
    elsewhere: ProcessIdentity | None = None
    silent_s: float | None = None
    runner_note: str = ""
    ended_at: float | None = None

    @property
    def is_active(self) -> bool:
        """Whether a task may still begin or end without a resume."""
        return self.state in AT_WORK

    @property
    def name(self) -> str:
        """The name of the run's directory."""
        return self.path.name

    def count(self, state: State) -> int:
        """Return the number of tasks in a state."""
        return sum(task.state == state for task in self.tasks)


def read_status(
    run: Path, watch: LeaseWatch | None = None, runners: RunnerWatch | None = None
) -> RunStatus:
    """Read the status of a run.

    Args:
        run: Directory of the run, with its record and journal.
        watch: Lease watch that the caller keeps between reads, to notice a dead runner on another
            machine. Default: a new watch.
        runners: Runner watch that the caller keeps between reads, so that engines are not queried
            each time. Default: a new watch.

    Raises:
        RequestError: The run is no job's, or a newer Tarmac wrote its record.
        StorageError: The run cannot be read.
        TarmacError: The run's record is damaged.
    """
    record = read_record(run)
    noted = read_runner_note(run)
    runner = noted if noted is not None and noted.is_alive() else None
    is_alive = runner is not None or is_held(run / LOCK, watch)
    # Poll before reading events: a job that ends in between has written its events.
    job = None if is_alive else (runners or RunnerWatch()).state_of(run, record.executor)
    events, problems = _read_tasks(run)
    tasks = _statuses(run, events, record.executor, is_alive=is_alive)
    states = Counter(task.state for task in tasks)
    if is_alive and runner is None and have_all_ended(states, record.num_tasks):
        # A runner on another machine was killed after its last task: no work is left.
        is_alive = not is_long_silent(run)
    state: State = "running" if is_alive else "queued"
    if not is_alive and not is_to_begin(run, job):
        state = state_of_run(states, record.num_tasks, record.outcome)
    facts = (*events.active.values(), *events.ended.values())
    moments = [moment for event in facts if isinstance(moment := event.get("at"), float)]
    return RunStatus(
        path=run,
        state=state,
        created_at=record.created_at,
        num_tasks=len(tasks) if record.num_tasks is None else record.num_tasks,
        tasks=tasks,
        runner=runner,
        reason="" if is_alive else record.reason,
        problems=problems,
        elsewhere=noted if is_alive and runner is None else None,
        silent_s=silent_s(run) if is_alive and runner is None else None,
        # Tasks may have ended without the runner job.
        runner_note="" if job is None or state == "succeeded" else job.words,
        ended_at=None if is_alive else max(moments, default=None),
    )


def tasks_left_with_engine(run: Path) -> int:
    """Return the number of tasks that an engine has queued or runs, with any runner or none.

    Raises:
        StorageError: The journal cannot be read.
    """
    events, _ = _read_tasks(run)
    tasks = _statuses(run, events, read_record(run).executor, is_alive=False)
    return sum(task.state in ACTIVE for task in tasks)


def _read_tasks(run: Path) -> tuple[TaskEvents, Sequence[str]]:
    """Return the last facts of each task that has begun, and the damaged lines of the journal."""
    events, journal = TaskEvents(), run / "journal.jsonl"
    if not journal.exists():
        return events, ()
    lines = read_events(journal)
    for event in lines.values:
        events.add(event)
    return events, tuple(map(str, lines.damaged))


def _statuses(
    run: Path, events: TaskEvents, executor: str, *, is_alive: bool
) -> Sequence[TaskStatus]:
    # A runner has written what the agents recorded into the journal.
    reader = None if is_alive else _read_attempt
    outlives = is_alive or outlive_runner(events.active, executor)
    facts = events.active | events.ended
    return [
        status_of_task(run, facts[index], reader, is_alive=is_alive, outlives=outlives)
        for index in sorted(facts)
    ]


def _read_attempt(directory: Path, number: int) -> AttemptRecord | None:
    try:
        return read_attempt(directory, number)
    except OSError:
        return None

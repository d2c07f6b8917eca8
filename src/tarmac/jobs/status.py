"""The status of a job's run, read from its directory by any process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from tarmac.errors import TarmacError
from tarmac.executors import outlives_runner
from tarmac.files import (
    LeaseWatch,
    Shape,
    is_held,
    lease_file,
    parse_json,
    read_errors,
    read_regular,
    storage_errors,
    write_json,
)
from tarmac.jobs.journal import read_events
from tarmac.jobs.record import JobRecord, read_record
from tarmac.jobs.runner_watch import RunnerWatch, is_to_begin
from tarmac.node import read_attempt
from tarmac.processes import ProcessIdentity, identify
from tarmac.tasks.run_files import directory_name

State = Literal["queued", "running", "detached", "succeeded", "failed", "skipped", "interrupted"]

_RUNNER = "runner.json"

# A request to end for a runner on another machine, which no signal reaches.
_REQUEST = "cancel.json"

# Keys of an attempt's events that do not apply to the next attempt.
_OF_AN_ATTEMPT = ("place", "host", "reason")

# Last events of an attempt that waits in an engine's queue.
_WAITS = ("queued", "waiting", "requeued")

_ACTIVE = ("queued", "running")

# Outcomes in an agent's record.
_OUTCOMES: dict[str, State] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "interrupted": "interrupted",
}

_PROCESS = Shape(
    {"pid": "whole number", "start_ticks": "whole number", "boot_id": "text", "host": "text"}
)

# Held by the process that works on the run.
LOCK = ".lock"

# Clocks of hosts and file servers differ by less than this.
_LONG_SILENT_S = 600.0


@dataclasses.dataclass(frozen=True)
class TaskStatus:
    """A task that has begun, or was skipped.

    Attributes:
        index: Number of the task in the order of the file.
        name: Name of the task, unique in its job.
        state: State of the task: ``queued`` while an engine has not begun it; ``interrupted`` also
            for a task that ended because its runner was killed.
        attempt: Number of the last attempt, from 1; 0 where the task was skipped.
        exit_code: Exit code of the last attempt; None until it has ended.
        seconds: Duration of the last attempt in seconds; 0 until it has ended.
        reason: Why the task did not succeed, or what it waits for; for a running task, what delays
            it or why its state is unknown.
        directory: Directory of the task, with ``stdout``, ``stderr`` and ``work/``.
        is_shared: Whether the directory belongs to an algorithm's instance, which does one task
            after another.
        host: Host of the task; empty for this machine.
    """

    index: int
    name: str
    state: State
    attempt: int
    exit_code: int | None
    seconds: float
    reason: str
    directory: Path
    is_shared: bool = False
    host: str = ""


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
        return self.state in ("running", "queued", "detached")

    @property
    def name(self) -> str:
        """The name of the run's directory."""
        return self.path.name

    def count(self, state: State) -> int:
        """Return the number of tasks in a state."""
        return sum(task.state == state for task in self.tasks)


def note_runner(run: Path, pid: int) -> None:
    """Record the process of a run's runner.

    Args:
        run: Directory of the run, where the record is written.
        pid: Process id of the runner, on this machine.
    """
    # A process that has already ended is no runner.
    with contextlib.suppress(ProcessLookupError):
        write_json(run / _RUNNER, identify(pid)._asdict())


def forget_runner(run: Path) -> None:
    """Delete the record of a run's runner."""
    with storage_errors(run):
        (run / _RUNNER).unlink(missing_ok=True)
        # The request to end was meant for this runner.
        (run / _REQUEST).unlink(missing_ok=True)


def ask_to_end(run: Path, runner: ProcessIdentity) -> None:
    """Write the file that asks a run's runner to end all its tasks.

    Args:
        run: Directory of the run, in which the runner looks for the file.
        runner: Process of the runner; a later runner ignores the request.

    Raises:
        StorageError: This user may not write the request.
    """
    write_json(run / _REQUEST, {"runner": runner._asdict()})


def is_asked_to_end(run: Path, runner: ProcessIdentity) -> bool:
    """Whether `ask_to_end` was called for a runner."""
    try:
        # Opening the directory makes network file systems ask their server.
        os.close(os.open(run, os.O_RDONLY))
        request = parse_json(read_regular(run / _REQUEST))
        return ProcessIdentity(**request["runner"]) == runner
    except (OSError, ValueError, TypeError, KeyError):
        return False


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
    noted = _read_runner_note(run)
    runner = noted if noted is not None and noted.is_alive() else None
    is_alive = runner is not None or is_held(run / LOCK, watch)
    # Poll before reading events: a job that ends in between has written its events.
    job = None if is_alive else (runners or RunnerWatch()).state_of(run, record.executor)
    events, problems = _last_events(run)
    outlives = is_alive or outlives_runner(record.executor)
    tasks = [
        _task(run, events[index], is_alive=is_alive, outlives=outlives) for index in sorted(events)
    ]
    silent_s = _silent_s(run) if is_alive and runner is None else None
    if (silent_s or 0.0) > _LONG_SILENT_S and _have_all_ended(tasks, record):
        # A runner on another machine was killed after its last task: no work is left.
        is_alive, silent_s = False, None
    state = _state(tasks, record, is_alive=is_alive, is_queued=is_to_begin(run, job))
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
        silent_s=silent_s,
        # Tasks may have ended without the runner job.
        runner_note="" if job is None or state == "succeeded" else job.words,
        ended_at=None if is_alive else _ended_at(events),
    )


def _ended_at(events: Mapping[int, Mapping[str, Any]]) -> float | None:
    moments = [event.get("at") for event in events.values()]
    return max((moment for moment in moments if isinstance(moment, float)), default=None)


def tasks_left_with_engine(run: Path) -> int:
    """Return the number of tasks that an engine has queued or runs, with any runner or none.

    Raises:
        StorageError: The journal cannot be read.
    """
    events, _ = _last_events(run)
    outlives = outlives_runner(read_record(run).executor)
    return sum(
        _task(run, event, is_alive=False, outlives=outlives).state in _ACTIVE
        for event in events.values()
    )


def _have_all_ended(tasks: Sequence[TaskStatus], record: JobRecord) -> bool:
    has_all = record.num_tasks is not None and len(tasks) >= record.num_tasks
    return has_all and not any(task.state in _ACTIVE for task in tasks)


def _silent_s(run: Path) -> float | None:
    """Return the age of the last heartbeat of a run's runner in seconds; None without a lease."""
    for path in (lease_file(run / LOCK), run / LOCK):
        with contextlib.suppress(OSError):
            written = path.stat()
            if written.st_size:
                return max(0.0, time.time() - written.st_mtime)
    return None


def _last_events(run: Path) -> tuple[dict[int, dict[str, Any]], tuple[str, ...]]:
    """Return the last facts of each task that has begun, and the damaged lines of the journal."""
    events: dict[int, dict[str, Any]] = {}
    journal = run / "journal.jsonl"
    if not journal.exists():
        return events, ()
    lines = read_events(journal)
    for event in lines.values:
        known = events.get(event["task"], {})
        if known.get("event") in ("ended", "retried"):
            # Facts of an earlier attempt do not apply to the next.
            known = {key: value for key, value in known.items() if key not in _OF_AN_ATTEMPT}
        known |= event
        if "name" in known:
            events[event["task"]] = known
    return events, tuple(map(str, lines.damaged))


def read_runner(run: Path) -> ProcessIdentity | None:
    """Return the process of a run's runner on this machine; None where none is alive.

    Raises:
        StorageError: The runner's record cannot be read.
        TarmacError: The runner's record is damaged.
    """
    noted = _read_runner_note(run)
    return noted if noted is not None and noted.is_alive() else None


def _read_runner_note(run: Path) -> ProcessIdentity | None:
    """Return the last recorded process of a run's runner, alive or not, on any machine.

    Raises:
        StorageError: A process holds the run's lock, and the record cannot be read.
        TarmacError: A process holds the run's lock, and the record is damaged.
    """
    path = run / _RUNNER
    try:
        with read_errors(path):
            return ProcessIdentity(**_PROCESS.checked(parse_json(read_regular(path))))
    except (ValueError, TypeError, TarmacError) as error:
        # A runner deletes its record at its end, perhaps since the read above. A leftover record is
        # ignored.
        if not path.exists() or not is_held(run / LOCK):
            return None
        if isinstance(error, TarmacError):
            raise
        raise TarmacError(f"{path} is damaged: {error}") from error


def _task(run: Path, event: dict[str, Any], *, is_alive: bool, outlives: bool) -> TaskStatus:
    # A task that is retried after its end has begun anew.
    has_ended = event["event"] == "ended"
    own = f"tasks/{directory_name(event['task'], event['name'])}"
    status = TaskStatus(
        index=event["task"],
        name=event["name"],
        state=event["outcome"] if has_ended else "running",
        attempt=event.get("attempt", 0),
        exit_code=event.get("exit_code") if has_ended else None,
        seconds=event["seconds"] if has_ended else 0.0,
        reason=event["reason"] if has_ended else "",
        directory=run / event.get("directory", own),
        is_shared=event.get("directory", own) != own,
        host=event.get("host", ""),
    )
    if has_ended:
        return status
    if event["event"] in _WAITS:
        reason = event.get("reason", "")
        status = dataclasses.replace(status, state="queued", reason=reason, host="")
    elif event["event"] == "noted":
        status = dataclasses.replace(status, reason=event["reason"])
    if is_alive:
        return status
    # Only an engine's task outlives its runner, and its agent's record has its state.
    is_engines = event["event"] in _WAITS or "host" in event or "place" in event
    if not is_engines or event["event"] == "retried":
        return dataclasses.replace(status, state="interrupted", reason="")
    latest = _as_its_agent_says(status)
    # Some engines end a runner's tasks with it, before the agents record that.
    is_over = not outlives and latest.state in _ACTIVE
    return dataclasses.replace(latest, state="interrupted", reason="") if is_over else latest


def _as_its_agent_says(status: TaskStatus) -> TaskStatus:
    """Return the status of a task without a runner, from the agent's record of its attempt."""
    try:
        record = read_attempt(status.directory, status.attempt)
    except OSError:
        return status
    if record is None:
        return status
    state = _OUTCOMES.get(record.outcome or "")
    if state is None:
        return dataclasses.replace(status, state="running", host=record.host)
    if state == "succeeded" and record.problems:
        state = "failed"
    return dataclasses.replace(
        status,
        state=state,
        exit_code=record.exit_code,
        seconds=record.seconds,
        reason=record.reason,
        host=record.host,
    )


def _state(
    tasks: Sequence[TaskStatus], record: JobRecord, *, is_alive: bool, is_queued: bool
) -> State:
    if is_alive or is_queued:
        return "running" if is_alive else "queued"
    if any(task.state in _ACTIVE for task in tasks):
        return "detached"
    if record.outcome is not None:
        return record.outcome
    num_tasks = record.num_tasks
    if num_tasks is None or len(tasks) < num_tasks:
        return "interrupted"
    if any(task.state == "interrupted" for task in tasks):
        return "interrupted"
    return "succeeded" if all(task.state == "succeeded" for task in tasks) else "failed"

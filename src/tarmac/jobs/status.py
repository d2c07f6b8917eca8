"""A job run's state, read from its directory by any process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any, Literal

from tarmac.errors import TarmacError
from tarmac.files import (
    Shape,
    is_held,
    lease_file,
    parse_json,
    read_errors,
    read_regular,
    storage_errors,
    write_json,
)
from tarmac.jobs.executors import outlives_runner
from tarmac.jobs.journal import read_events
from tarmac.jobs.record import read_record
from tarmac.jobs.run_files import directory_name
from tarmac.jobs.runner_watch import RunnerWatch, is_to_begin
from tarmac.node import read_attempt
from tarmac.processes import ProcessIdentity, identify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from tarmac.files import LeaseWatch
    from tarmac.jobs.record import JobRecord

State = Literal["queued", "running", "detached", "succeeded", "failed", "skipped", "interrupted"]

_RUNNER = "runner.json"

# Written by who wants a runner to end that no signal reaches: one on another machine.
_REQUEST = "cancel.json"

# Of an attempt's events, what does not hold for the next attempt.
_OF_AN_ATTEMPT = ("place", "host", "reason")

# Last events of an attempt that waits in an engine's queue.
_WAITS = ("queued", "waiting", "requeued")

_ACTIVE = ("queued", "running")

# What an agent writes down.
_OUTCOMES: dict[str, State] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "interrupted": "interrupted",
}

_PROCESS = Shape(
    {"pid": "whole number", "start_ticks": "whole number", "boot_id": "text", "host": "text"}
)

# Owned by the process that works on the run.
LOCK = ".lock"

# Clocks of hosts and file servers differ by less than this.
_LONG_SILENT_S = 600.0


@dataclasses.dataclass(frozen=True)
class TaskStatus:
    """A task that has begun, or was skipped.

    Attributes:
        index: Its number in the order of the file.
        name: Its own among the job's.
        state: ``queued`` while it waits for an engine to begin it, ``interrupted`` also where its
            runner was killed and it ended with that.
        attempt: Number of the last attempt, from 1; 0 where the task was skipped.
        exit_code: Exit code of the last attempt; None until it has ended.
        seconds: Duration of the last attempt in seconds; 0 until it has ended.
        reason: Why it did not succeed, or what it waits for; while it runs, what keeps it or why
            nothing is known of it.
        directory: With ``stdout``, ``stderr`` and ``work/``.
        is_shared: Whether that is an instance's of an algorithm, which does one task after another.
        host: Where it runs or ran; empty for this machine.
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
    """A job's run.

    Attributes:
        path: Directory of the run, whose last part is its name.
        state: ``running`` while its runner is alive, also on another machine; ``queued`` while its
            runner, a job of an engine, is still to begin; ``detached`` where no runner is, and an
            engine has tasks of it; ``interrupted`` where a task is left and nobody has it; else
            ``succeeded`` or ``failed``.
        created_at: Time when the run was made, in UTC.
        num_tasks: In all; of a pipeline at work, those that have begun.
        tasks: Those that have begun or were skipped, in the order of the file.
        runner: The process of this machine that works on it, while it does.
        reason: Why a pipeline has failed.
        problems: Lines of its journal that cannot be read; what they said is left out.
        elsewhere: The process of another machine that works on it, as far as can be seen from here.
        silent_s: For how many seconds that has given no sign, where it gives any, by clocks that
            may differ; None where it gives none, and of a runner here.
        ended_at: When the last of its tasks ended, in seconds since 1970; None while it is at work.
        runner_note: What its engine says of a runner that is a job and not at work; empty where
            the run needs none any more.
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
        """Whether any of its tasks may still begin or end by itself."""
        return self.state in ("running", "queued", "detached")

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.name

    def count(self, state: State) -> int:
        """Return how many tasks are in a state."""
        return sum(task.state == state for task in self.tasks)


def note_runner(run: Path, pid: int) -> None:
    """Write down which process works on a run.

    Args:
        run: Directory of the run, which gets the note.
        pid: Process id of the runner, on this machine.
    """
    # One that has ended already is none.
    with contextlib.suppress(ProcessLookupError):
        write_json(run / _RUNNER, identify(pid)._asdict())


def forget_runner(run: Path) -> None:
    """Note that no process works on a run any more."""
    with storage_errors(run):
        (run / _RUNNER).unlink(missing_ok=True)
        # Who asked it to end asked this one.
        (run / _REQUEST).unlink(missing_ok=True)


def ask_to_end(run: Path, runner: ProcessIdentity) -> None:
    """Ask a run's runner to end all its tasks, by a file that it looks for.

    Args:
        run: Directory of the run, in which the runner looks for the file.
        runner: That and no later one.

    Raises:
        StorageError: It may not be asked by this user.
    """
    write_json(run / _REQUEST, {"runner": runner._asdict()})


def is_asked_to_end(run: Path, runner: ProcessIdentity) -> bool:
    """Whether a runner has been asked to end by `ask_to_end`."""
    try:
        # The directory is opened anew, upon which network file systems ask their server.
        os.close(os.open(run, os.O_RDONLY))
        request = parse_json(read_regular(run / _REQUEST))
        return ProcessIdentity(**request["runner"]) == runner
    except (OSError, ValueError, TypeError, KeyError):
        return False


def read_status(
    run: Path, watch: LeaseWatch | None = None, runners: RunnerWatch | None = None
) -> RunStatus:
    """Read a run's status.

    Args:
        run: Directory of the run, with its record and journal.
        watch: Lease watch that the caller keeps between reads, to notice a dead runner on another
            machine. Default: a new watch.
        runners: Runner watch that the caller keeps between reads, so that engines are not queried
            each time. Default: a new watch.

    Raises:
        RequestError: It is no job's run, or one of a newer Tarmac.
        StorageError: It cannot be read.
        TarmacError: Its record is damaged.
    """
    record = read_record(run)
    noted = _read_runner_note(run)
    runner = noted if noted is not None and noted.is_alive() else None
    is_alive = runner is not None or is_held(run / LOCK, watch)
    # Asked before events are read: one that has ended meanwhile has written them.
    job = None if is_alive else (runners or RunnerWatch()).state_of(run, record.executor)
    events, problems = _last_events(run)
    outlives = is_alive or outlives_runner(record.executor)
    tasks = [
        _task(run, events[index], is_alive=is_alive, outlives=outlives) for index in sorted(events)
    ]
    silent_s = _silent_s(run) if is_alive and runner is None else None
    if (silent_s or 0.0) > _LONG_SILENT_S and _have_all_ended(tasks, record):
        # A runner on another machine was killed after its last task: there is nothing left to do.
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
        # Tasks may have gone on to their ends without it.
        runner_note="" if job is None or state == "succeeded" else job.words,
        ended_at=None if is_alive else _ended_at(events),
    )


def _ended_at(events: Mapping[int, Mapping[str, Any]]) -> float | None:
    moments = [event.get("at") for event in events.values()]
    return max((moment for moment in moments if isinstance(moment, float)), default=None)


def tasks_left_with_engine(run: Path) -> int:
    """Return how many tasks of a run are queued or at work with an engine, whoever looks after it.

    Raises:
        StorageError: Its journal cannot be read.
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
    """Return how long ago the lease of a run's runner was last written; None without a lease."""
    for path in (lease_file(run / LOCK), run / LOCK):
        with contextlib.suppress(OSError):
            written = path.stat()
            if written.st_size:
                return max(0.0, time.time() - written.st_mtime)
    return None


def _last_events(run: Path) -> tuple[dict[int, dict[str, Any]], tuple[str, ...]]:
    """Return what is known of each task that has begun, and lines that cannot be read."""
    events: dict[int, dict[str, Any]] = {}
    journal = run / "journal.jsonl"
    if not journal.exists():
        return events, ()
    lines = read_events(journal)
    for event in lines.values:
        known = events.get(event["task"], {})
        if known.get("event") in ("ended", "retried"):
            # What was said of an earlier attempt is not so of the next.
            known = {key: value for key, value in known.items() if key not in _OF_AN_ATTEMPT}
        known |= event
        if "name" in known:
            events[event["task"]] = known
    return events, tuple(map(str, lines.damaged))


def read_runner(run: Path) -> ProcessIdentity | None:
    """Return the process of this machine that works on a run; None where there is none alive.

    Raises:
        StorageError: Its note cannot be read.
        TarmacError: Its note is damaged.
    """
    noted = _read_runner_note(run)
    return noted if noted is not None and noted.is_alive() else None


def _read_runner_note(run: Path) -> ProcessIdentity | None:
    """Return the process that was last said to work on a run, alive or not, on any machine.

    Raises:
        StorageError: Some process works on it, and the note cannot be read.
        TarmacError: Likewise, and the note is damaged.
    """
    path = run / _RUNNER
    try:
        with read_errors(path):
            return ProcessIdentity(**_PROCESS.checked(parse_json(read_regular(path))))
    except (ValueError, TypeError, TarmacError) as error:
        # It ends its note when it ends, also between two looks; one that none left is no process's.
        if not path.exists() or not is_held(run / LOCK):
            return None
        if isinstance(error, TarmacError):
            raise
        raise TarmacError(f"{path} is damaged: {error}") from error


def _task(run: Path, event: dict[str, Any], *, is_alive: bool, outlives: bool) -> TaskStatus:
    # A task that is tried again after it had ended has begun anew.
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
    # Only what was queued outlives its runner, and its agent says how it is.
    is_engines = event["event"] in _WAITS or "host" in event or "place" in event
    if not is_engines or event["event"] == "retried":
        return dataclasses.replace(status, state="interrupted", reason="")
    latest = _as_its_agent_says(status)
    # Some engines end what a runner has started with it, before an agent has written that down.
    is_over = not outlives and latest.state in _ACTIVE
    return dataclasses.replace(latest, state="interrupted", reason="") if is_over else latest


def _as_its_agent_says(status: TaskStatus) -> TaskStatus:
    """Return the status of a task that no runner looks after, from the record of its attempt."""
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

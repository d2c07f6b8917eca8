"""A job run's state, read from its directory by any process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import TYPE_CHECKING, Any, Literal

from tarmac.errors import TarmacError
from tarmac.files import is_owned, read_errors, storage_errors, write_json
from tarmac.jobs.journal import read_events
from tarmac.jobs.record import read_record
from tarmac.jobs.scheduler import directory_name
from tarmac.processes import ProcessIdentity, identify

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

__all__ = [
    "LOCK",
    "RunStatus",
    "TaskStatus",
    "forget_runner",
    "note_runner",
    "read_runner",
    "read_status",
]

State = Literal["running", "succeeded", "failed", "skipped", "interrupted"]

_RUNNER = "runner.json"

# Owned by the process that works on the run.
LOCK = ".lock"


@dataclasses.dataclass(frozen=True)
class TaskStatus:
    """A task that has begun, or was skipped.

    Attributes:
        index: Its number in the order of the file.
        name: Its own among the job's.
        state: ``interrupted`` also where its runner was killed.
        attempt: Which attempt, from 1; 0 where it was skipped.
        exit_code: Of the last attempt, once it has ended.
        seconds: Of the last attempt, once it has ended.
        reason: Why it did not succeed.
        directory: With ``stdout``, ``stderr`` and ``work/``.
    """

    index: int
    name: str
    state: State
    attempt: int
    exit_code: int | None
    seconds: float
    reason: str
    directory: Path


@dataclasses.dataclass(frozen=True)
class RunStatus:
    """A job's run.

    Attributes:
        path: Its directory.
        state: ``running`` while its runner is alive, also on another machine; ``interrupted`` where
            a task is left and no runner; else ``succeeded`` or ``failed``.
        created_at: UTC.
        num_tasks: In all.
        tasks: Those that have begun or were skipped, in the order of the file.
        runner: The process of this machine that works on it, while it does.
        problems: Lines of its journal that cannot be read; what they said is left out.
    """

    path: Path
    state: State
    created_at: datetime
    num_tasks: int
    tasks: Sequence[TaskStatus]
    runner: ProcessIdentity | None
    problems: Sequence[str] = ()

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
        run: Its directory.
        pid: The process's number.
    """
    # One that has ended already is none.
    with contextlib.suppress(ProcessLookupError):
        write_json(run / _RUNNER, dataclasses.asdict(identify(pid)))


def forget_runner(run: Path) -> None:
    """Note that no process works on a run any more."""
    with storage_errors(run):
        (run / _RUNNER).unlink(missing_ok=True)


def read_status(run: Path) -> RunStatus:
    """Read a run's status.

    Args:
        run: Its directory.

    Raises:
        RequestError: It is no job's run, or one of a newer Tarmac.
        StorageError: It cannot be read.
        TarmacError: Its record is damaged.
    """
    record = read_record(run)
    runner = read_runner(run)
    is_alive = runner is not None or is_owned(run / LOCK)
    events: dict[int, dict[str, Any]] = {}
    problems: tuple[str, ...] = ()
    journal = run / "journal.jsonl"
    if journal.exists():
        found = read_events(journal)
        problems = tuple(map(str, found.damaged))
        for event in found.values:
            events[event["task"]] = events.get(event["task"], {}) | event
    tasks = [_task(run, events[index], is_alive=is_alive) for index in sorted(events)]
    return RunStatus(
        path=run,
        state=_state(tasks, record.num_tasks, is_alive=is_alive),
        created_at=record.created_at,
        num_tasks=record.num_tasks,
        tasks=tasks,
        runner=runner,
        problems=problems,
    )


def read_runner(run: Path) -> ProcessIdentity | None:
    """Return the process of this machine that works on a run; None where there is none alive.

    Raises:
        StorageError: Its note cannot be read.
        TarmacError: Its note is damaged.
    """
    path = run / _RUNNER
    try:
        with read_errors(path):
            runner = ProcessIdentity(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise TarmacError(f"{path} is damaged: {error}") from error
    except TarmacError:
        # It ends its note when it ends, also between two looks.
        if not path.exists():
            return None
        raise
    return runner if runner.is_alive() else None


def _task(run: Path, event: dict[str, Any], *, is_alive: bool) -> TaskStatus:
    # A task that is tried again after it had ended has begun anew.
    has_ended = event["event"] == "ended"
    state: State = event["outcome"] if has_ended else "running" if is_alive else "interrupted"
    return TaskStatus(
        index=event["task"],
        name=event["name"],
        state=state,
        attempt=event.get("attempt", 0),
        exit_code=event.get("exit_code") if has_ended else None,
        seconds=event["seconds"] if has_ended else 0.0,
        reason=event["reason"] if has_ended else "",
        directory=run / "tasks" / directory_name(event["task"], event["name"]),
    )


def _state(tasks: Sequence[TaskStatus], num_tasks: int, *, is_alive: bool) -> State:
    if is_alive:
        return "running"
    if len(tasks) < num_tasks or any(task.state == "interrupted" for task in tasks):
        return "interrupted"
    return "succeeded" if all(task.state == "succeeded" for task in tasks) else "failed"

"""What is becoming of a job's run, read from its directory by anybody."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import TYPE_CHECKING, Any, Literal

from tarmac.errors import RequestError
from tarmac.jobs._identity import ProcessIdentity, identify
from tarmac.jobs._journal import read_journal
from tarmac.jobs._scheduler import directory_name
from tarmac.runs import default_output
from tarmac.storage import storage_errors, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = [
    "RunStatus",
    "TaskStatus",
    "forget_runner",
    "list_statuses",
    "note_runner",
    "read_status",
]

State = Literal["running", "succeeded", "failed", "skipped", "interrupted"]

_RUNNER = "runner.json"


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
        state: ``running`` while its runner is alive; ``interrupted`` where a task is left and no
            runner; else ``succeeded`` or ``failed``.
        created_at: As in ISO 8601.
        num_tasks: In all.
        tasks: Those that have begun or were skipped, in the order of the file.
        runner: The process that works on it, while it does.
    """

    path: Path
    state: State
    created_at: str
    num_tasks: int
    tasks: Sequence[TaskStatus]
    runner: ProcessIdentity | None

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
        StorageError: It cannot be read.
        TarmacError: Its journal is damaged.
    """
    record = _read(run / "job-run.json")
    runner = _runner(run)
    events: dict[int, dict[str, Any]] = {}
    journal = run / "journal.jsonl"
    if journal.exists():
        for event in read_journal(journal):
            events[event["task"]] = events.get(event["task"], {}) | event
    tasks = [_task(run, events[index], is_alive=runner is not None) for index in sorted(events)]
    num_tasks = int(record["num_tasks"])
    return RunStatus(
        path=run,
        state=_state(tasks, num_tasks, is_alive=runner is not None),
        created_at=str(record["created_at"]),
        num_tasks=num_tasks,
        tasks=tasks,
        runner=runner,
    )


def list_statuses(output: Path | None = None) -> Iterator[RunStatus]:
    """Yield all jobs' runs in a directory, the newest first.

    Args:
        output: Where runs lie; by default `tarmac.runs.default_output`.
    """
    root = (output or default_output()).resolve()
    records = sorted(root.glob("*/job-run.json"), key=_modified, reverse=True)
    for path in records:
        yield read_status(path.parent)


def _modified(path: Path) -> float:
    return path.stat().st_mtime


def _read(path: Path) -> dict[str, Any]:
    with storage_errors(path):
        content = path.read_text(encoding="utf-8")
    try:
        found = json.loads(content)
    except ValueError as error:
        raise RequestError(f"{path} is damaged: {error}") from error
    assert isinstance(found, dict)
    return found


def _runner(run: Path) -> ProcessIdentity | None:
    path = run / _RUNNER
    if not path.exists():
        return None
    runner = ProcessIdentity(**_read(path))
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

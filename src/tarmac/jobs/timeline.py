"""Start and end times of each attempt of a run's tasks, from the run's journal.

Example:
    >>> (task,) = trace([
    ...     {"event": "started", "task": 0, "name": "train", "attempt": 1, "at": 10.0},
    ...     {"event": "ended", "task": 0, "name": "train", "outcome": "succeeded", "at": 12.5},
    ... ]).values()
    >>> task.attempts[0].began_at, task.attempts[0].ended_at, task.attempts[0].outcome
    (10.0, 12.5, 'succeeded')
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from tarmac.executors import DISTURBANCES
from tarmac.jobs.journal import read_events
from tarmac.jobs.status import RunStatus, read_status
from tarmac.jobs.task_status import TaskStatus

# ``disturbed`` used no retry; after ``turn over`` the task continues at once.
Ending = Literal[
    "queued", "running", "succeeded", "failed", "disturbed", "turn over", "interrupted"
]

_OUTCOMES: dict[str, Ending] = {
    "succeeded": "succeeded",
    "failed": "failed",
    "interrupted": "interrupted",
}
_SETTLED: dict[str, Ending] = _OUTCOMES | {"running": "running"}


@dataclasses.dataclass(slots=True)
class AttemptSpan:
    """An attempt in time. Times are in seconds since 1970, None where unknown.

    Attributes:
        number: Number of the attempt, from 1; a run resumed on this machine counts from 1 again.
        queued_at: Time when the engine accepted the attempt.
        began_at: Time of the start, before stage in.
        ended_at: Time when the runner noticed the end.
        outcome: State of the attempt, or its outcome.
        reason: Why the attempt did not succeed, or what an active attempt waits for.
        cause: Cause as in `Cause`; empty where unknown.
        exit_code: Exit code of the program; negative for a signal.
        host: Host of the attempt; empty for this machine.
        cpus: Number of cores granted to the attempt.
        gpus: UUIDs of the GPUs granted to the attempt.
        place: Engine's name for the attempt.
    """

    number: int = 0
    queued_at: float | None = None
    began_at: float | None = None
    ended_at: float | None = None
    outcome: Ending = "queued"
    reason: str = ""
    cause: str = ""
    exit_code: int | None = None
    host: str = ""
    cpus: float | None = None
    gpus: tuple[str, ...] = ()
    place: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the attempt has no recorded end."""
        return self.outcome in ("queued", "running")


@dataclasses.dataclass(slots=True)
class TaskTrace:
    """The recorded attempts of a task.

    Attributes:
        index: Number of the task in the order of the file.
        name: Name of the task, unique in its job.
        attempts: Attempts in order; empty for a skipped task.
        last_event: Kind of the task's last event in the journal.
        last_at: Time of that event, in seconds since 1970.
        seconds: Duration of the last attempt in seconds, without stage in and stage out; None until
            it has ended.
    """

    index: int
    name: str
    attempts: list[AttemptSpan] = dataclasses.field(default_factory=list)
    last_event: str = ""
    last_at: float | None = None
    seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The attempts of a run's tasks in time.

    Attributes:
        status: State of the run and of each task.
        traces: Recorded attempts of each task of `status.tasks`, by task number.
        began_at: Time when the run was created, in seconds since 1970.
        until: Current time for an active run, else the last time in its journal.
        has_times: Whether the journal has times; journals of Tarmac 0.1 have none.
    """

    status: RunStatus
    traces: dict[int, TaskTrace]
    began_at: float
    until: float
    has_times: bool

    def trace_of(self, task: TaskStatus) -> TaskTrace:
        """Return the recorded attempts of a task."""
        return self.traces.get(task.index) or TaskTrace(task.index, task.name)


def read_timeline(run: Path, *, now: float | None = None) -> Timeline:
    """Read the timeline of a run; damaged lines of its journal are ignored.

    Args:
        run: Directory of the run, with its record and journal.
        now: Current time in seconds since 1970. Default: this machine's clock.

    Raises:
        RequestError: The run is no job's, or a newer Tarmac wrote its record.
        StorageError: The run cannot be read.
        TarmacError: The run's record is damaged.
    """
    # Read the journal first: a task in it is then never ahead of its status.
    journal = run / "journal.jsonl"
    traces = trace(read_events(journal).values if journal.exists() else ())
    status = read_status(run)
    for task in status.tasks:
        if task.index in traces:
            _settle(traces[task.index], task)
    began_at = status.created_at.timestamp()
    moments = [
        task_trace.last_at for task_trace in traces.values() if task_trace.last_at is not None
    ]
    last = max([began_at, *moments])
    return Timeline(
        status=status,
        traces=traces,
        began_at=began_at,
        until=max(last, time.time() if now is None else now) if status.is_active else last,
        has_times=bool(moments) or not traces,
    )


def trace(events: Iterable[dict[str, Any]]) -> dict[int, TaskTrace]:
    """Return the recorded attempts of each task in a journal, by task number.

    Args:
        events: Valid events in order, as of `read_events`.
    """
    traces: dict[int, TaskTrace] = {}
    for event in events:
        index = event["task"]
        if index not in traces:
            traces[index] = TaskTrace(index, event.get("name", str(index)))
        _add(traces[index], event)
    return traces


def _add(task_trace: TaskTrace, event: dict[str, Any]) -> None:
    kind, at = event["event"], event.get("at")
    task_trace.last_event = kind
    task_trace.last_at = at if at is not None else task_trace.last_at
    if kind == "queued":
        span = _open(task_trace, event, has_begun=False)
        # The second event of the attempt has the engine's name for it.
        span.queued_at = at if span.queued_at is None else span.queued_at
        span.place = event.get("place", "")
    elif kind == "started":
        span = _open(task_trace, event, has_begun=True)
        span.began_at, span.outcome, span.reason = at, "running", ""
        span.host, span.cpus = event.get("host", ""), event.get("cpus")
        span.gpus = tuple(event.get("gpus") or ())
    elif kind in ("waiting", "noted"):
        span = _open(task_trace, event, has_begun=kind == "noted")
        span.reason = event.get("reason", "")
    elif kind == "requeued":
        _close(_open(task_trace, event, has_begun=True), event, "disturbed", at)
        task_trace.attempts.append(AttemptSpan(number=event.get("attempt", 0), queued_at=at))
    elif kind == "retried":
        is_disturbed = event.get("cause") in DISTURBANCES
        outcome: Ending = "disturbed" if is_disturbed else "failed"
        outcome = "turn over" if event.get("goes_on") else outcome
        _close(_open(task_trace, event, has_begun=True), event, outcome, at)
    elif kind == "ended" and event["outcome"] != "skipped":
        _close(_open(task_trace, event, has_begun=True), event, _OUTCOMES[event["outcome"]], at)
        task_trace.seconds = event.get("seconds")


def _open(task_trace: TaskTrace, event: dict[str, Any], *, has_begun: bool) -> AttemptSpan:
    """Return the attempt of an event: the last attempt, or a new one if the last has ended."""
    number = event.get("attempts" if event["event"] == "ended" else "attempt", 0)
    last = task_trace.attempts[-1] if task_trace.attempts else None
    if last is not None and last.is_open and 0 in (number, last.number, number - last.number):
        # A second start with the same number: a later runner restarted the attempt.
        is_anew = last.outcome == "running" and event["event"] in ("started", "queued")
        if not is_anew:
            return last
    if last is not None and last.is_open:
        last.outcome = "interrupted"
    span = AttemptSpan(number=number, outcome="running" if has_begun else "queued")
    task_trace.attempts.append(span)
    return span


def _close(span: AttemptSpan, event: dict[str, Any], outcome: Ending, at: float | None) -> None:
    span.outcome, span.ended_at = outcome, at
    span.reason, span.cause = event.get("reason", ""), event.get("cause") or ""
    span.host = event.get("host") or span.host
    span.exit_code = event.get("exit_code")


def _settle(task_trace: TaskTrace, task: TaskStatus) -> None:
    """Complete an attempt without a recorded end from its task's status."""
    last = task_trace.attempts[-1] if task_trace.attempts else None
    if last is None or not last.is_open or task.state not in _SETTLED:
        return
    last.outcome, last.reason = _SETTLED[task.state], task.reason or last.reason
    last.exit_code, last.host = task.exit_code, task.host or last.host
    if not last.is_open and last.began_at is not None and task.seconds:
        # The agent recorded the end, and no runner has read it yet.
        last.ended_at, task_trace.seconds = last.began_at + task.seconds, task.seconds

"""When each attempt of a run's tasks waited, began and ended, as its journal tells.

Example:
    >>> (one,) = trace([
    ...     {"event": "started", "task": 0, "name": "train", "attempt": 1, "at": 10.0},
    ...     {"event": "ended", "task": 0, "name": "train", "outcome": "succeeded", "at": 12.5},
    ... ]).values()
    >>> one.attempts[0].began_at, one.attempts[0].ended_at, one.attempts[0].outcome
    (10.0, 12.5, 'succeeded')
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any, Literal

from tarmac.jobs.executors import DISTURBANCES
from tarmac.jobs.journal import read_events
from tarmac.jobs.status import read_status

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tarmac.jobs.status import RunStatus, TaskStatus

# ``disturbed`` spent none of the task's retries; after ``turn over`` the task goes on at once.
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
    """One attempt. Moments are in seconds since 1970, None where they are not known.

    Attributes:
        number: From 1; a run that was gone on with on this machine counts from 1 again.
        queued_at: When an engine had it.
        began_at: When it was started, with its inputs still to come.
        ended_at: When its end was noticed.
        outcome: How it stands, or ended.
        reason: Why it did not succeed; of one that waits or runs, what keeps it.
        cause: The same as one of `Cause`; empty where that is not known.
        exit_code: Negative for a signal.
        host: Where; empty for this machine.
        cpus: Cores that it was given.
        gpus: UUIDs of the GPUs that it was given.
        place: The engine's name for it.
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
        """Whether no end of it is on record."""
        return self.outcome in ("queued", "running")


@dataclasses.dataclass(slots=True)
class TaskTrace:
    """What is on record of a task.

    Attributes:
        index: Its number in the order of the file.
        name: Its own among the job's.
        attempts: In their order; none of a task that was skipped.
        last_event: The kind of the last line on it.
        last_at: When that was written.
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
    """A run's tasks in time.

    Attributes:
        status: How the run and each task stand.
        traces: By the tasks' numbers: of each of `status.tasks`.
        began_at: When the run was made, in seconds since 1970.
        until: Now, while it is active; else the last moment that its journal tells of.
        has_times: Whether its journal tells any; those of Tarmac 0.1 do not.
    """

    status: RunStatus
    traces: dict[int, TaskTrace]
    began_at: float
    until: float
    has_times: bool

    def trace_of(self, task: TaskStatus) -> TaskTrace:
        """Return what is on record of a task."""
        return self.traces.get(task.index) or TaskTrace(task.index, task.name)


def read_timeline(run: Path, *, now: float | None = None) -> Timeline:
    """Read a run's tasks in time; lines of its journal that are damaged are left out.

    Args:
        run: Directory of the run, with its record and journal.
        now: In seconds since 1970; by this machine's clock if not given.

    Raises:
        RequestError: It is no job's run, or one of a newer Tarmac.
        StorageError: It cannot be read.
        TarmacError: Its record is damaged.
    """
    # The journal first: a task is then never further than its status says, only less far.
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
    """Return what events of a journal say of each task, by its number.

    Args:
        events: In their order; what is not of the form that it should have counts as not said.
    """
    traces: dict[int, TaskTrace] = {}
    for event in events:
        index = event.get("task")
        if not isinstance(index, int):
            continue
        task_trace = traces.get(index)
        if task_trace is None:
            task_trace = traces[index] = TaskTrace(index, str(event.get("name", index)))
        _add(task_trace, event)
    return traces


def _add(one: TaskTrace, event: dict[str, Any]) -> None:
    kind, at = event["event"], _number(event.get("at"))
    one.last_event = kind
    one.last_at = at if at is not None else one.last_at
    if kind == "queued":
        span = _open(one, event, has_begun=False)
        # Told a second time with the engine's name for it.
        span.queued_at = at if span.queued_at is None else span.queued_at
        span.place = str(event.get("place", ""))
    elif kind == "started":
        span = _open(one, event, has_begun=True)
        span.began_at, span.outcome, span.reason = at, "running", ""
        span.host, span.cpus = str(event.get("host", "")), _number(event.get("cpus"))
        gpus = event.get("gpus")
        span.gpus = tuple(map(str, gpus)) if isinstance(gpus, list) else ()
    elif kind in ("waiting", "noted"):
        span = _open(one, event, has_begun=kind == "noted")
        span.reason = str(event.get("reason", ""))
    elif kind == "requeued":
        _close(_open(one, event, has_begun=True), event, "disturbed", at)
        one.attempts.append(AttemptSpan(number=_whole(event.get("attempt")), queued_at=at))
    elif kind == "retried":
        is_disturbed = event.get("cause") in DISTURBANCES
        outcome: Ending = "disturbed" if is_disturbed else "failed"
        outcome = "turn over" if event.get("goes_on") else outcome
        _close(_open(one, event, has_begun=True), event, outcome, at)
    elif kind == "ended" and event.get("outcome") != "skipped":
        # An outcome that this version does not know is no success.
        known = _OUTCOMES.get(event.get("outcome", ""), "failed")
        _close(_open(one, event, has_begun=True), event, known, at)
        one.seconds = _number(event.get("seconds"))


def _open(one: TaskTrace, event: dict[str, Any], *, has_begun: bool) -> AttemptSpan:
    """Return the attempt that an event is of, which is a new one where the last has ended."""
    number = _whole(event.get("attempts" if event["event"] == "ended" else "attempt"))
    last = one.attempts[-1] if one.attempts else None
    if last is not None and last.is_open and 0 in (number, last.number, number - last.number):
        # One that begins a second time under its number: a later session has started it anew.
        is_anew = last.outcome == "running" and event["event"] in ("started", "queued")
        if not is_anew:
            return last
    if last is not None and last.is_open:
        last.outcome = "interrupted"
    span = AttemptSpan(number=number, outcome="running" if has_begun else "queued")
    one.attempts.append(span)
    return span


def _close(span: AttemptSpan, event: dict[str, Any], outcome: Ending, at: float | None) -> None:
    span.outcome, span.ended_at = outcome, at
    span.reason, span.cause = str(event.get("reason") or ""), str(event.get("cause") or "")
    span.host = str(event.get("host") or "") or span.host
    code = event.get("exit_code")
    span.exit_code = code if isinstance(code, int) else None


def _settle(one: TaskTrace, task: TaskStatus) -> None:
    """Give an attempt without an end what its task's status knows of it."""
    last = one.attempts[-1] if one.attempts else None
    if last is None or not last.is_open or task.state not in _SETTLED:
        return
    last.outcome, last.reason = _SETTLED[task.state], task.reason or last.reason
    last.exit_code, last.host = task.exit_code, task.host or last.host
    if not last.is_open and last.began_at is not None and task.seconds:
        # Told by its agent, whom no runner has listened to yet.
        last.ended_at, one.seconds = last.began_at + task.seconds, task.seconds


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number else None


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0

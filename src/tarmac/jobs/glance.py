"""A monitor's view of a job: its active tasks, from the journal as far as it is written.

No engine is polled: the state of a task on a cluster is read from its agent's record.
"""

from __future__ import annotations

import collections
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tarmac.files import Fields, Readings
from tarmac.runs import Glance
from tarmac.tasks.run_files import directory_name

# Last events of an attempt that waits in an engine's queue.
_WAITS = ("queued", "waiting", "requeued")

# Only the first of thousands of queued tasks are listed; the count includes all.
_MAX_WAITING = 32

_ENDED = ("succeeded", "failed", "skipped", "interrupted")


@dataclasses.dataclass
class _Tasks:
    """The tasks of a journal that have begun; tasks that have ended are kept as numbers alone.

    Attributes:
        active: Last known facts of each active task, by task number.
        outcomes: Number of ended tasks, by outcome.
        ended: Outcome of each ended task, by task number.
    """

    active: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    outcomes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    ended: dict[int, str] = dataclasses.field(default_factory=dict)


def glance_job(path: Path, readings: Readings | None = None) -> Glance:
    """Return a monitor's view of a job's run; see `tarmac.runs.Glancer`."""
    readings = readings or Readings()
    record = readings.fields(path / "job-run.json")
    runner = readings.fields(path / "runner.json")
    tasks = readings.lines(path / "journal.jsonl", _Tasks, _add)
    is_alive = readings.is_held(path / ".lock")
    is_here = runner.text("host") == os.uname().nodename
    all_parts = [*_parts(path, tasks, readings, is_alive=is_alive)]
    parts = tuple(part for part in all_parts if part.status not in _ENDED)
    if parts and not is_alive:
        # The import of executors is slow, and a list of runs seldom needs them.
        from tarmac.executors import outlives_runner  # noqa: PLC0415

        if not outlives_runner(record.text("executor") or ""):
            # These tasks ended with their runner, before their agents recorded it.
            parts = ()
    # So far, only the agents have recorded the ends of these tasks.
    outcomes = collections.Counter(part.status for part in all_parts if part.status in _ENDED)
    outcomes.update(tasks.outcomes)
    number = record.whole("num_tasks")
    pid = runner.whole("pid")
    return Glance(
        kind="job",
        name=path.name,
        path=path,
        status="running" if is_alive else "detached" if parts else _status(record, outcomes),
        pids=(pid,) if pid is not None and is_alive and is_here else (),
        locks=(path / ".lock",),
        host=(runner.text("host") or "") if is_alive and not is_here else "",
        created_at=record.moment("created_at"),
        done=outcomes.total(),
        total=len(tasks.active) + len(tasks.ended) if number is None else number,
        note=f"{outcomes['failed']} failed" if outcomes["failed"] else "",
        parts=parts,
    )


def _add(tasks: _Tasks, value: object) -> None:
    """Update the tasks by an event of the journal."""
    event = Fields.of(value)
    index, kind = event.whole("task"), event.text("event")
    if index is None or kind is None:
        return
    before = tasks.ended.pop(index, None)
    if before is not None:
        tasks.outcomes[before] -= 1
    if kind == "ended":
        tasks.active.pop(index, None)
        outcome = event.text("outcome")
        tasks.ended[index] = outcome if outcome is not None and outcome in _ENDED else "failed"
        tasks.outcomes[tasks.ended[index]] += 1
        return
    known = tasks.active.setdefault(index, {})
    if kind == "retried":
        # These facts of an earlier attempt do not apply to the next.
        for key in ("place", "host", "cpus", "gpus"):
            known.pop(key, None)
    known.pop("reason", None)
    known.update(event.values)


def _status(record: Fields, outcomes: collections.Counter[str]) -> str:
    """Return the status of a job without a runner, from the outcomes of its tasks."""
    if not record:
        return "unknown"
    total = record.whole("num_tasks")
    if record.text("outcome") is not None:
        return record.text("outcome") or ""
    if total is None or outcomes.total() < total or outcomes["interrupted"]:
        return "interrupted"
    return "succeeded" if outcomes["succeeded"] == total else "failed"


def _parts(path: Path, tasks: _Tasks, readings: Readings, *, is_alive: bool) -> Iterator[Glance]:
    """Yield the running tasks, and the first of the queued tasks."""
    waiting = 0
    for index, known in sorted(tasks.active.items()):
        event = Fields(known)
        waits = event.text("event") in _WAITS
        # Only tasks in an engine outlive their runner.
        if not is_alive and not (waits or "host" in known or "place" in known):
            continue
        waiting += waits
        if waits and waiting > _MAX_WAITING:
            continue
        yield _part(path, index, event, readings, waits=waits)


def _part(path: Path, index: int, event: Fields, readings: Readings, *, waits: bool) -> Glance:
    """Return the view of a task without a recorded end; its agent's record may have one."""
    name = event.text("name") or str(index)
    directory = path / (event.text("directory") or f"tasks/{directory_name(index, name)}")
    attempt = event.whole("attempt") or 1
    # Only a task on a cluster has a place and an agent's record.
    place = event.text("place") or ""
    record = Fields({})
    if place or event.text("host"):
        record = readings.fields(directory / f"attempt-{attempt}.json")
    host = event.text("host") or record.text("host") or ""
    here = os.uname().nodename
    process = record.inner("process")
    pid = process.whole("pid") if process.text("host") == here else None
    began = event.text("event") == "started" or record.text("state") == "began"
    return Glance(
        kind="task",
        name=f"{path.name}/{name}",
        path=directory,
        status=record.text("outcome") or ("queued" if waits and not began else "running"),
        pids=() if pid is None else (pid,),
        variables={"TARMAC_TASK_INDEX": str(index), "TARMAC_ATTEMPT": str(attempt)},
        slurm_job=place,
        host="" if host == here else host,
        gpus=_given(event, record),
        retries=max(0, attempt - 1),
        note=event.text("reason") or "",
    )


def _given(event: Fields, record: Fields) -> tuple[str, ...] | None:
    """Return the GPUs granted to a task, from its agent's record or the journal."""
    for source in (record, event):
        if isinstance(gpus := source.values.get("gpus"), list):
            return tuple(map(str, gpus))
    # An event with a task's cores also has its GPUs, if the task has any.
    return () if "cpus" in event.values else None

"""A monitor's view of a job: its active tasks, from the journal as far as it is written.

No engine is polled: the state of a task on a cluster is read from its agent's record.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarmac.files import Fields, Readings
from tarmac.jobs.runner_record import LOCK, RUNNER, is_long_silent
from tarmac.jobs.task_status import (
    ACTIVE,
    WAITS,
    TaskEvents,
    TaskStatus,
    have_all_ended,
    outlive_runner,
    state_of_run,
    status_of_task,
)
from tarmac.node import AttemptRecord, attempt_file, parse_attempt
from tarmac.runs import Glance

# Only the first of thousands of queued tasks are listed; the count includes all.
_MAX_WAITING = 32

_start = functools.partial(TaskEvents, keeps_ended=False)


def glance_job(path: Path, readings: Readings | None = None) -> Glance:
    """Return a monitor's view of a job's run; see `tarmac.runs.Glancer`."""
    readings = readings or Readings()
    record = readings.fields(path / "job-run.json")
    runner = readings.fields(path / RUNNER)
    tasks = readings.lines(path / "journal.jsonl", _start, TaskEvents.add_if_valid)
    is_here = runner.text("host") == os.uname().nodename
    is_alive = readings.is_held(path / LOCK)
    states = Counter(tasks.outcomes)
    num_tasks = record.whole("num_tasks")
    if is_alive and not is_here and not tasks.active and have_all_ended(states, num_tasks):
        # A runner on another machine was killed after its last task.
        is_alive = not is_long_silent(path)
    outlives = is_alive or outlive_runner(tasks.active, record.text("executor") or "")

    def read_record(directory: Path, number: int) -> AttemptRecord | None:
        return readings.value(attempt_file(directory, number), parse_attempt, None)

    parts = []
    num_waiting = 0
    for _, facts in sorted(tasks.active.items()):
        num_waiting += facts["event"] in WAITS
        if facts["event"] in WAITS and num_waiting > _MAX_WAITING:
            states["queued"] += 1
            continue
        status = status_of_task(path, facts, read_record, is_alive=is_alive, outlives=outlives)
        states[status.state] += 1
        if status.state in ACTIVE:
            has_agent = "place" in facts or "host" in facts
            attempt = read_record(status.directory, status.attempt) if has_agent else None
            parts.append(_part(path, status, facts, attempt))
    pid = runner.whole("pid")
    state = "running" if is_alive else "unknown"
    if not is_alive and (record or parts):
        state = state_of_run(states, num_tasks, record.text("outcome"))
    return Glance(
        kind="job",
        name=path.name,
        path=path,
        status=state,
        pids=(pid,) if pid is not None and is_alive and is_here else (),
        locks=(path / LOCK,),
        host=(runner.text("host") or "") if is_alive and not is_here else "",
        created_at=record.moment("created_at"),
        # Of these tasks, so far only the agents may have recorded the ends.
        done=tasks.outcomes["interrupted"]
        + sum(states[state] for state in ("succeeded", "failed", "skipped")),
        total=len(tasks.active) + len(tasks.ended) if num_tasks is None else num_tasks,
        note=f"{states['failed']} failed" if states["failed"] else "",
        parts=tuple(parts),
    )


def _part(
    run: Path, status: TaskStatus, facts: Mapping[str, Any], record: AttemptRecord | None
) -> Glance:
    """Return the view of an active task, from its status and its agent's record."""
    here = os.uname().nodename
    process = Fields.of({} if record is None else record.process)
    pid = process.whole("pid") if process.text("host") == here else None
    number = max(1, status.attempt)
    return Glance(
        kind="task",
        name=f"{run.name}/{status.name}",
        path=status.directory,
        status=status.state,
        pids=() if pid is None else (pid,),
        variables={"TARMAC_TASK_INDEX": str(status.index), "TARMAC_ATTEMPT": str(number)},
        slurm_job=facts.get("place", ""),
        host="" if status.host == here else status.host,
        gpus=_granted(facts, record),
        retries=number - 1,
        note=status.reason,
    )


def _granted(facts: Mapping[str, Any], record: AttemptRecord | None) -> tuple[str, ...] | None:
    """Return the GPUs granted to a task, from its agent's record or the journal."""
    gpus = facts.get("gpus") if record is None else record.gpus
    if gpus is not None:
        return tuple(map(str, gpus))
    # An event with a task's cores also has its GPUs, if the task has any.
    return () if "cpus" in facts else None

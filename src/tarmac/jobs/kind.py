"""Jobs as a kind of run, for the run catalogue, and the list of their statuses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tarmac.errors import RequestError, quoted
from tarmac.files import Lock, open_lock
from tarmac.jobs.record import RECORD, read_record
from tarmac.jobs.runner_record import LOCK, read_runner
from tarmac.jobs.runner_watch import RunnerWatch
from tarmac.jobs.status import RunStatus, read_status, tasks_left_with_engine
from tarmac.runs import BrokenRun, Catalogue, RunFacts, RunKind, RunSummary, default_output
from tarmac.wording import counted


@contextlib.contextmanager
def reserved(run: Path) -> Iterator[Lock]:
    """Hold a run's lock, so that no other process works on the run or removes it; yield the lock.

    Args:
        run: Directory of the run to lock.

    Raises:
        RequestError: Another process works on the run, or has removed it.
    """
    lock = open_lock(run / LOCK)
    hint = f"See it: tarmac ps. Cancel it: tarmac cancel {quoted(run)}"
    try:
        # In a removed directory, the lock cannot be created.
        with contextlib.suppress(FileNotFoundError):
            if not lock.acquire():
                raise RequestError(f"another process works on {run.name}", hint=hint)
        if not (run / RECORD).exists():
            raise RequestError(f"run {run.name} has been removed")
        yield lock
    finally:
        lock.release()


@contextlib.contextmanager
def _reserved_for_removal(run: Path) -> Iterator[None]:
    with reserved(run):
        # A runner that has just started does not hold the lock yet.
        if read_runner(run) is not None:
            raise RequestError(
                f"another process works on {run.name}",
                hint=f"Cancel it: tarmac cancel {quoted(run)}",
            )
        if left := tasks_left_with_engine(run):
            raise RequestError(
                f"{run.name} has {counted(left, 'task')} still queued or running",
                hint=f"Cancel them: tarmac cancel {quoted(run)}",
            )
        yield


def _summarize(path: Path) -> RunSummary:
    status = read_status(path)
    words = [f"{status.count('succeeded')} of {status.num_tasks} succeeded"]
    words += [f"{count} failed" for count in (status.count("failed"),) if count]
    return RunSummary(
        kind=JOB.name,
        path=path,
        status=status.state,
        created_at=status.created_at,
        elapsed_s=None
        if status.ended_at is None
        else max(0.0, status.ended_at - status.created_at.timestamp()),
        result=", ".join(words),
        metrics=_metrics(status),
    )


def _metrics(status: RunStatus) -> dict[str, float]:
    return {
        "tasks": status.num_tasks,
        "succeeded": status.count("succeeded"),
        "failed": status.count("failed"),
        "seconds": round(sum(task.seconds for task in status.tasks), 3),
    }


def _facts(path: Path) -> RunFacts:
    return RunFacts(settings={"job": read_record(path).job}, metrics=_metrics(read_status(path)))


JOB = RunKind(
    name="job",
    record=RECORD,
    marks=("journal.jsonl", "runner.json", "runners"),
    # An interrupted run is not settled: an engine may still have its tasks.
    settled=frozenset({"succeeded", "failed"}),
    summarize=_summarize,
    facts=_facts,
    logs=lambda path: sorted([*path.glob("tasks/*/std*"), *path.glob("instances/*/std*")]),
    reserved=_reserved_for_removal,
)


def list_statuses(output: Path | None = None) -> tuple[list[RunStatus], list[BrokenRun]]:
    """Return the status of all jobs' runs in a directory, newest first, and the unreadable runs.

    Args:
        output: Directory of the runs; by default `tarmac.runs.default_output`.
    """
    catalogue = Catalogue((JOB,), (output or default_output()).resolve())
    runners = RunnerWatch()
    statuses, broken = catalogue.read(lambda entry: read_status(entry.path, runners=runners))
    statuses.sort(key=lambda status: status.created_at, reverse=True)
    return statuses, broken

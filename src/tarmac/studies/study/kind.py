"""Searches as a kind of run: found, listed, compared and removed through the catalogue.

Only the record is read, so that listing runs needs no package of the search.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tarmac.errors import RequestError
from tarmac.runs import RunFacts, RunKind, RunSummary
from tarmac.studies.study.leases import Leases, status_of
from tarmac.studies.study.locks import owner_lock
from tarmac.studies.study.record import StudyRecord, read_study_record

_RECORD = "study.json"


def _summarize(path: Path) -> RunSummary:
    record = read_study_record(path / _RECORD)
    metrics = _metrics(record)
    return RunSummary(
        kind=SEARCH.name,
        path=path,
        status=status_of(record.status, is_worked_on=bool(_leases(path, record).seem_living())),
        created_at=record.created_at,
        elapsed_s=record.elapsed_s,
        workload=record.request.get("workload"),
        result=", ".join(f"{name} {value:.4g}" for name, value in metrics.items()),
        metrics=metrics,
    )


def _metrics(record: StudyRecord) -> dict[str, float]:
    if record.best is None:
        return {}
    test = record.best.tested(record.judged_by)
    return record.best.values | ({} if test is None else {record.judged_by.of("test"): test})


def _facts(path: Path) -> RunFacts:
    record = read_study_record(path / _RECORD)
    inputs = {"request": record.request, "settings": record.settings, "space": record.space}
    winner = {} if record.best is None else record.best.settings
    return RunFacts(
        settings=inputs | {"winner": winner}, metrics=_metrics(record), judged_by=record.judged_by
    )


def _leases(path: Path, record: StudyRecord) -> Leases:
    return Leases(path / "workers", record.locks)


@contextlib.contextmanager
def _reserved(path: Path) -> Iterator[None]:
    """Lock a study that no process works on."""
    record = read_study_record(path / _RECORD)
    lock = owner_lock(path / ".lock", record.locks)
    try:
        is_free = lock.acquire()
        working = _leases(path, record).seem_living()
        if working or not is_free:
            raise RequestError(
                f"study {path.name} is in use by {', '.join(working) or 'a process'}",
                hint="Stop its search first, with Ctrl-C or SIGTERM.",
            )
        yield
    finally:
        lock.release()


SEARCH = RunKind(
    name="search",
    record=_RECORD,
    # Directory with a file for each process that works on the study.
    marks=("workers",),
    settled=frozenset({"completed", "interrupted", "failed"}),
    summarize=_summarize,
    facts=_facts,
    logs=lambda path: sorted((path / "logs").glob("*.log")),
    reserved=_reserved,
)

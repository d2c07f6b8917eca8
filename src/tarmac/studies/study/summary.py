"""A study in a few values, and its removal: by its directory alone, without Optuna or its trials.

A list of runs of all kinds asks `is_study` whose directory it has, and reads a `StudySummary`.
"""

from __future__ import annotations

import dataclasses
import shutil
from typing import TYPE_CHECKING

from filelock import FileLock

from tarmac.errors import RequestError
from tarmac.files import storage_errors
from tarmac.studies.study.leases import Leases
from tarmac.studies.study.record import read_study_record, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

__all__ = ["StudySummary", "is_study", "read_summary", "remove_study"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudySummary:
    """What a list says of a study.

    Attributes:
        path: The study's directory.
        name: The directory's name.
        status: ``running``, ``completed``, ``interrupted`` or ``failed``.
        workload: What it trains.
        method: How it searches.
        created_at: UTC.
        ended_at: When work on it last ended, UTC; None before.
        elapsed_s: Wall-clock seconds of work on it, in all sessions.
        values: The winner's objectives, by name; empty before there is one.
        test_accuracy: The winner's, 0 to 1, trained anew on all training data; None before.
        winner_run: The directory of that training's run; None before there is one.
        error: Why it failed; None where it did not.
    """

    path: Path
    name: str
    status: str
    workload: str
    method: str
    created_at: datetime
    ended_at: datetime | None
    elapsed_s: float
    values: Mapping[str, float]
    test_accuracy: float | None
    winner_run: Path | None
    error: str | None


def is_study(path: Path) -> bool:
    """Whether a directory is a study's."""
    return (path / "study.json").is_file()


def read_summary(path: Path) -> StudySummary:
    """Read a study's summary.

    Args:
        path: Its directory.

    Raises:
        RequestError: It is no study, or was written by a newer Tarmac.
        TarmacError: Its ``study.json`` is damaged.
    """
    record = read_study_record(path / "study.json")
    best = record.best
    return StudySummary(
        path=path,
        name=path.name,
        status=status_of(record, is_worked_on=bool(Leases(path / "workers").living())),
        workload=str(record.request["workload"]),
        method=str(record.request.get("method", "evolve")),
        created_at=record.created_at,
        ended_at=record.ended_at,
        elapsed_s=record.elapsed_s,
        values={} if best is None else best.values,
        test_accuracy=None if best is None else best.test_accuracy,
        winner_run=None if best is None or best.run is None else path / best.run,
        error=record.error,
    )


def remove_study(path: Path) -> None:
    """Delete a study's directory, with the runs of its networks. Trials in a database stay there.

    Raises:
        RequestError: It is no study, or a process is working on it.
        StorageError: It cannot be deleted.
    """
    if not is_study(path):
        raise RequestError(f"{path} is no study: it has no study.json")
    with storage_errors(path), FileLock(path / ".lock", is_singleton=False):
        workers = Leases(path / "workers").living()
        if workers:
            raise RequestError(
                f"study {path.name} is being worked on by {', '.join(workers)}",
                hint="Stop that search first; a worker's name is its host, its process's number "
                "and a random text.",
            )
        shutil.rmtree(path)

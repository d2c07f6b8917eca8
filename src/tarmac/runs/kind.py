"""A kind of run, and the values that all kinds of runs have in common.

Each kind of run has a record of its own in its directory, ``run.json``, ``study.json`` or
``job-run.json``. The package that makes a kind of run describes it as a `RunKind`; this package
knows none of those packages.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from tarmac.errors import TarmacError, first_line
from tarmac.runs.judging import JudgedBy

# Statuses of runs that are at work or will be without a resume.
AT_WORK = ("running", "queued", "detached")


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """The summary of a run, for lists.

    Attributes:
        kind: Name of the run's kind.
        path: Directory of the run, with its record.
        status: Status of the run, in its kind's terms; ``running`` only while a process works on
            it.
        created_at: Time when the run was created, UTC.
        elapsed_s: Seconds of work on the run; None where they are not recorded.
        workload: Workload that was trained or searched; None for a job.
        result: Result as text; empty before there is a result.
        metrics: Final values of metrics, by name.
    """

    kind: str
    path: Path
    status: str
    created_at: datetime
    elapsed_s: float | None = None
    workload: str | None = None
    result: str = ""
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the run's directory."""
        return self.path.name


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """The facts of a run that are compared.

    Attributes:
        settings: Settings and environment of the run, as nested mappings.
        metrics: Final values of metrics, by name.
        judged_by: Metric that the run is judged by; None for a run that is no training.
        curve: Value of that metric per epoch; empty without values.
    """

    settings: Mapping[str, object]
    metrics: Mapping[str, float]
    judged_by: JudgedBy | None = None
    curve: Sequence[float] = ()


@dataclasses.dataclass(frozen=True)
class RunKind:
    """A kind of run, as described by the package that makes such runs.

    Attributes:
        name: Name of the kind: ``training``, ``search`` or ``job``.
        record: Name of the file that marks a run's directory as this kind: JSON with ``created_at``
            in ISO 8601, and optionally a further name of the run as ``id``.
        marks: Names of further files and directories of a run. The summary of a settled run is
            unchanged while these and the record are unchanged.
        settled: Final statuses; a run of another status may change without a change of its marks.
        summarize: Reads the summary of a run's directory. Raises TarmacError for an unreadable run.
        facts: Reads the compared facts of a run.
        logs: Returns the files with the output of a run's processes, in the order to print them.
        reserved: Holds a run's lock while the context lasts. Raises RequestError where another
            process works on the run.
    """

    name: str
    record: str
    marks: tuple[str, ...]
    settled: frozenset[str]
    summarize: Callable[[Path], RunSummary]
    facts: Callable[[Path], RunFacts]
    logs: Callable[[Path], Sequence[Path]]
    reserved: Callable[[Path], AbstractContextManager[None]]


@dataclasses.dataclass(frozen=True)
class BrokenRun:
    """A run's directory whose record cannot be read, and why."""

    path: Path
    reason: str

    @classmethod
    def of(cls, path: Path, error: Exception) -> BrokenRun:
        """Return a broken run for the error of reading it.

        Any error is caught, so that one bad run does not hide the list of all others. An unexpected
        error is shown with its type.
        """
        if isinstance(error, TarmacError):
            return cls(path, error.message)
        if isinstance(error, OSError):
            return cls(path, f"cannot read it: {os.strerror(error.errno or 0)}")
        return cls(path, f"{type(error).__name__}: {first_line(error)}")


@dataclasses.dataclass(frozen=True)
class FoundRun:
    """A run found by the catalogue.

    Attributes:
        kind: Kind of the run, such as a training.
        path: Directory of the run, with its record.
        owner: Directory of the run that it belongs to, such as the search of a winner's training.
            None: an independent run.
    """

    kind: RunKind
    path: Path
    owner: Path | None = None

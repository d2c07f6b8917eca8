"""The one catalogue of runs: trainings, searches and jobs, found and listed alike.

Each kind of run has a record of its own in its directory, ``run.json``, ``study.json`` or
``job-run.json``. The room that makes a kind of run describes it as a `RunKind`; this one knows none
of those rooms.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tarmac.errors import RequestError, TarmacError, first_line, quoted, short_reason
from tarmac.files import (
    Fields,
    StorageError,
    first_own,
    parse_json,
    read_regular,
    remove_abandoned,
    storage_errors,
    sync_directory,
    temporary_path,
)
from tarmac.wording import in_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from tarmac.runs.glance import Glancer
    from tarmac.runs.judging import JudgedBy

_T = TypeVar("_T")

# Where, below a run, a run lies that belongs to it: a search's winner, trained anew.
_INNER = "best/*"

# The record of a search, whose winner's training belongs to it.
_SEARCH = "study.json"

# Of the names that a message lists.
_MAX_NAMES = 10


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """A run in a line.

    Attributes:
        kind: The name of its kind.
        path: Directory of the run, with its record.
        status: How it stands, as its kind says it; ``running`` only while a process works on it.
        created_at: Time when the run was created, UTC.
        elapsed_s: How long it was worked on, in seconds; None where that is not recorded.
        workload: What was trained or searched; None of a job.
        result: What came of it, in words; empty before there is anything.
        metrics: Final values, by name.
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
        """The directory's name."""
        return self.path.name


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """What is compared of a run.

    Attributes:
        asked: What was asked and where it ran, nested.
        metrics: Final values, by name.
        judged_by: What says how good it is; None of what is no training.
        curve: That metric per epoch, where it has any.
    """

    asked: Mapping[str, object]
    metrics: Mapping[str, float]
    judged_by: JudgedBy | None = None
    curve: Sequence[float] = ()


@dataclasses.dataclass(frozen=True)
class RunKind:
    """A kind of run, as the room that makes such runs describes it.

    Attributes:
        name: Name of the kind: ``training``, ``search`` or ``job``.
        record: The file in a run's directory that makes it one of this kind: JSON with
            ``created_at`` in ISO 8601, and perhaps a further name of the run as ``id``.
        marks: Files and folders in that directory, beside the record. The summary of a settled run
            does not change while none of these and the record look otherwise.
        settled: The statuses that stay so; of all others, a run may change without a sign.
        summarize: Reads a directory's summary. Raises TarmacError where it cannot be read.
        facts: Reads what is compared.
        logs: Returns the files of what its processes printed, in the order to print them in.
        reserved: Keeps others from working on a run while the context lasts. Raises RequestError
            where somebody works on it.
        glance: Reads what a monitor shows. It raises nothing: what cannot be read is not known.
    """

    name: str
    record: str
    marks: tuple[str, ...]
    settled: frozenset[str]
    summarize: Callable[[Path], RunSummary]
    facts: Callable[[Path], RunFacts]
    logs: Callable[[Path], Sequence[Path]]
    reserved: Callable[[Path], AbstractContextManager[None]]
    glance: Glancer


@dataclasses.dataclass(frozen=True)
class BrokenRun:
    """A run's directory whose record cannot be read, and why."""

    path: Path
    reason: str

    @classmethod
    def of(cls, path: Path, error: Exception) -> BrokenRun:
        """Return a run by what reading it has raised.

        One bad run must not take the list of all others away, so that any error is caught there.
        What nobody has worded is told with its type.
        """
        if isinstance(error, TarmacError):
            return cls(path, error.message)
        if isinstance(error, OSError):
            return cls(path, f"cannot read it: {os.strerror(error.errno or 0)}")
        return cls(path, f"{type(error).__name__}: {first_line(error)}")


@dataclasses.dataclass(frozen=True)
class FoundRun:
    """A run that was found: its kind, its directory, and what it lies in.

    Attributes:
        kind: Kind of the run, such as a training.
        path: Directory of the run, with its record.
        owner: The run that it belongs to, such as a search's whose winner it is; None of most.
    """

    kind: RunKind
    path: Path
    owner: Path | None = None


def forbidden_in(output: Path) -> list[BrokenRun]:
    """Return the directories that this user may not enter, which may be runs.

    Args:
        output: Where runs lie; it need not exist.

    Raises:
        StorageError: This user may not look into it.
    """
    broken = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        try:
            paths = sorted(path for path in output.iterdir() if not path.name.startswith("."))
        except PermissionError as error:
            raise StorageError(f"cannot read {output}: {os.strerror(error.errno or 0)}") from error
        for path in paths:
            try:
                # Only who may enter a directory may look at what it calls itself.
                os.stat(f"{path}/.")  # noqa: PTH116 - a Path leaves the dot out
            except PermissionError as error:
                broken.append(BrokenRun.of(path, error))
            except OSError:
                continue
    return broken


def default_output() -> Path:
    """Return where runs are made by default: ``TARMAC_RUNS``, else ``./runs``."""
    return Path(os.environ.get("TARMAC_RUNS") or "runs")


class Catalogue:
    """The runs of some kinds in a directory.

    Args:
        kinds: The kinds to look for.
        output: Where the runs lie; `default_output` if not given.
    """

    def __init__(self, kinds: Sequence[RunKind], output: Path | None = None) -> None:
        self._kinds = tuple(kinds)
        self.output = output or default_output()

    def summaries(self) -> tuple[list[RunSummary], list[BrokenRun]]:
        """Return all runs, the newest first, and those that cannot be read.

        What is left of runs whose removal was killed is removed, where this user may.
        """
        remove_abandoned(self.output)
        summaries, broken = self.read(lambda run: run.kind.summarize(run.path))
        summaries.sort(key=lambda summary: summary.created_at, reverse=True)
        return summaries, broken

    def read(self, reader: Callable[[FoundRun], _T]) -> tuple[list[_T], list[BrokenRun]]:
        """Read all runs in any way, in no order; return also those that cannot be read.

        Args:
            reader: What it raises makes a run one that cannot be read.

        Raises:
            StorageError: This user may not look into the directory where the runs lie.
        """
        results: list[_T] = []
        broken = forbidden_in(self.output)
        for run in self._all():
            try:
                results.append(reader(run))
            except Exception as error:
                # One that was removed since it was listed is none.
                if os.path.lexists(run.path):
                    broken.append(BrokenRun.of(run.path, error))
        return results, broken

    def find(self, reference: str) -> FoundRun:
        """Find one run.

        Args:
            reference: A path, a name, the beginning of a name or an id, or ``latest``: the newest
                of the kinds, never another user's. A run of another kind stands for the newest
                that belongs to it, as a search for the training of its winner.

        Raises:
            RequestError: None fits, or more than one.
            StorageError: This user may not enter the directory where it would lie, or its own.
        """
        refuse_empty(reference)
        known = [*self._all()]
        paths = (Path(reference), self.output / reference)
        for path in paths:
            for kind in self._kinds:
                # Also a pipe: whoever reads it says what is wrong with it.
                if os.path.exists(path / kind.record):  # noqa: PTH110 - False where forbidden
                    # A link stands for itself, also beside what it leads to: that must not be
                    # deleted by the link's name.
                    same = (run for run in known if _is_at(run.path, path))
                    return next(same, FoundRun(kind, path))
        heads = {run.path: _head(run) for run in known}
        known.sort(key=lambda run: heads[run.path].created_at, reverse=True)
        for path in paths:
            inner = self._inner(path)
            if inner:
                return max(inner, key=lambda run: _head(run).created_at)
        if reference == "latest":
            # One that belongs to another run comes with it where that is of the kinds too.
            free = [run for run in known if run.owner not in heads]
            whole = [run for run in free if heads[run.path].is_whole]
            by_record = {run.path / run.kind.record: run for run in whole}
            newest = first_own(by_record)
            # Where none is whole, whoever reads the newest says what is wrong with it.
            fitting = free[:1] if not whole else [] if newest is None else [by_record[newest]]
        else:
            exact = [run for run in known if run.path.name == reference]
            fitting = exact or [run for run in known if _fits(run, heads[run.path], reference)]
            if not fitting:
                owners = {run.owner for run in known if run.owner is not None}
                named = [owner for owner in owners if owner.name.startswith(reference)]
                fitting = [next(run for run in known if run.owner == owner) for owner in named]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            names = "\n".join(in_one_line(run.path.name) for run in fitting)
            raise RequestError(f"run {reference!r} is not unique in {self.output}", hint=names)
        raise self._missing(reference, known)

    def _missing(self, reference: str, known: Sequence[FoundRun]) -> TarmacError:
        """Return the error of a reference that no run fits.

        Raises:
            StorageError: This user may not enter the directory where runs lie.
        """
        for broken in forbidden_in(self.output):
            if broken.path.name.startswith(reference):
                return StorageError(f"{broken.path}: {broken.reason}")
        kinds = " or ".join(kind.name for kind in self._kinds)
        for path in (Path(reference), self.output / reference):
            for inner in (path, path / _INNER.partition("/")[0]):
                # A directory that may be looked at, and not into.
                if os.path.isdir(inner) and not os.access(inner, os.R_OK | os.X_OK):  # noqa: PTH112
                    return StorageError(f"cannot read {inner}: {os.strerror(errno.EACCES)}")
            if os.path.exists(path / _SEARCH):  # noqa: PTH110 - False where forbidden
                if not any(kind.name == "training" for kind in self._kinds):
                    return RequestError(
                        f"{reference} is a search, which is no {kinds}",
                        hint=f"See it: tarmac search show {quoted(path)}",
                    )
                return RequestError(
                    f"{reference} is a search that has trained no winner yet",
                    hint=f"Go on with it: tarmac search --resume {quoted(path)}",
                )
        names = "\n".join(in_one_line(run.path.name) for run in known[:_MAX_NAMES])
        hint = (
            f"Newest there:\n{names}"
            if names
            else f"No {kinds} is there. Name where runs lie: --output DIR, or TARMAC_RUNS"
        )
        return RequestError(f"there is no run {reference!r} in {self.output} ({kinds})", hint=hint)

    def remove(self, run: FoundRun) -> None:
        """Delete a run's directory, with the runs that belong to it.

        One that cannot be deleted whole stays a run: its record goes last.

        Raises:
            RequestError: A process works on it, it belongs to another run, or it is a link.
            StorageError: It cannot be deleted.
        """
        if run.path.is_symlink():
            raise RequestError(
                f"{run.path} is a link to {os.path.realpath(run.path)}",
                hint=f"Delete what it leads to: tarmac runs rm {quoted(run.path.resolve())}\n"
                f"or the link alone: rm {quoted(run.path)}",
            )
        if run.owner is not None:
            raise RequestError(
                f"{run.path.name} belongs to {run.owner.name}",
                hint=f"Delete that: tarmac runs rm {quoted(run.owner)}",
            )
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(run.kind.reserved(run.path))
            except TarmacError as error:
                if isinstance(error, RequestError | StorageError):
                    raise
                # Whether anything still works on it, here or on a cluster, is in the record.
                raise TarmacError(
                    error.message, hint=f"If nothing works on it: rm -r {quoted(run.path)}"
                ) from error
            # Gone at once: nobody finds half of it.
            doomed = temporary_path(run.path.parent, ".removed")
            with storage_errors(run.path):
                run.path.rename(doomed)
                # Nor does a power cut bring half of it back.
                sync_directory(doomed.parent)
            try:
                _remove_but(doomed, run.kind.record)
                shutil.rmtree(doomed)
            except OSError as error:
                with storage_errors(run.path):
                    doomed.rename(run.path)
                inner = os.path.relpath(error.filename or doomed, doomed)
                raise StorageError(
                    f"cannot delete {run.path / inner}: {short_reason(error)}",
                    hint="What could be deleted of the run is gone, and its record is there still.",
                ) from error
        remove_abandoned(run.path.parent)

    def _inner(self, path: Path) -> list[FoundRun]:
        """Return the runs of the kinds that belong to the run of a directory."""
        return [
            FoundRun(kind, record.parent, path)
            for kind in self._kinds
            for record in _files_below(path, f"{_INNER}/{kind.record}")
        ]

    def _all(self) -> Iterator[FoundRun]:
        for kind in self._kinds:
            for record in _files_below(self.output, f"[!.]*/{kind.record}"):
                yield FoundRun(kind, record.parent)
            for record in _files_below(self.output, f"[!.]*/{_INNER}/{kind.record}"):
                yield FoundRun(kind, record.parent, record.parents[2])


def _remove_but(directory: Path, kept: str) -> None:
    """Delete what is in a directory but for one file."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != kept:
            os.unlink(entry.path)  # noqa: PTH108 - of a name that scandir gave


@dataclasses.dataclass(frozen=True)
class _Head:
    """What all records say."""

    created_at: datetime
    identifier: str
    is_whole: bool


def _files_below(directory: Path, pattern: str) -> list[Path]:
    """Return files in order; none of a directory that this user may not reach."""
    with contextlib.suppress(PermissionError):
        return sorted(directory.glob(pattern))
    return []


def _head(run: FoundRun) -> _Head:
    try:
        fields = Fields.of(parse_json(read_regular(run.path / run.kind.record)))
    except (OSError, ValueError):
        fields = Fields({})
    created_at = fields.moment("created_at")
    if created_at is None:
        return _Head(datetime.min.replace(tzinfo=UTC), "", is_whole=False)
    return _Head(created_at, fields.text("id") or "", is_whole=True)


def refuse_empty(reference: str) -> None:
    """Refuse an empty word in the place of a run: each name begins with it.

    Raises:
        RequestError: It is empty.
    """
    if not reference:
        raise RequestError(
            "the name of the run is empty",
            hint="A variable of the shell's may not be set. See what is there: tarmac runs list",
        )


def _is_at(path: Path, reference: Path) -> bool:
    """Whether both are one directory; a link is another one than what it leads to."""
    if path.is_symlink() or reference.is_symlink():
        return path.name == reference.name and path.parent.resolve() == reference.parent.resolve()
    return path.resolve() == reference.resolve()


def _fits(run: FoundRun, head: _Head, reference: str) -> bool:
    return run.path.name.startswith(reference) or head.identifier.startswith(reference)

"""The catalogue of runs: trainings, searches and jobs, found, read and removed alike."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tarmac.errors import RequestError, TarmacError, quoted, short_reason
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
from tarmac.runs.kind import BrokenRun, FoundRun, RunKind
from tarmac.wording import in_one_line

_T = TypeVar("_T")

# Path of a run that belongs to another run: the training of a search's winner.
_INNER = "best/*"

# The record of a search, which owns the training of its winner.
_SEARCH = "study.json"

# Maximum number of names in a message.
_MAX_NAMES = 10


def forbidden_in(output: Path) -> list[BrokenRun]:
    """Return the directories that this user may not enter; they may be runs.

    Args:
        output: Directory of the runs, which may be missing.

    Raises:
        StorageError: This user may not read the directory.
    """
    broken = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        try:
            paths = sorted(path for path in output.iterdir() if not path.name.startswith("."))
        except PermissionError as error:
            raise StorageError(f"cannot read {output}: {os.strerror(error.errno or 0)}") from error
        for path in paths:
            try:
                # Only a user who may enter a directory can stat its dot.
                os.stat(f"{path}/.")  # noqa: PTH116 - a Path leaves the dot out
            except PermissionError as error:
                broken.append(BrokenRun.of(path, error))
            except OSError:
                continue
    return broken


def default_output() -> Path:
    """Return the default directory of runs: ``TARMAC_RUNS``, else ``./runs``."""
    return Path(os.environ.get("TARMAC_RUNS") or "runs")


class Catalogue:
    """The runs of some kinds in a directory.

    Args:
        kinds: Kinds of runs to find.
        output: Directory of the runs; by default `default_output`.
    """

    def __init__(self, kinds: Sequence[RunKind], output: Path | None = None) -> None:
        self._kinds = tuple(kinds)
        self.output = output or default_output()

    def read(self, reader: Callable[[FoundRun], _T]) -> tuple[list[_T], list[BrokenRun]]:
        """Apply a function to all runs, in no order; return the results and the unreadable runs.

        Args:
            reader: Function that reads a run. An exception makes the run an unreadable one.

        Raises:
            StorageError: This user may not read the directory of the runs.
        """
        results: list[_T] = []
        broken = forbidden_in(self.output)
        for run in self._all():
            try:
                results.append(reader(run))
            except Exception as error:
                # A run removed since the listing is no broken run.
                if os.path.lexists(run.path):
                    broken.append(BrokenRun.of(run.path, error))
        return results, broken

    def find(self, reference: str) -> FoundRun:
        """Return the run that a reference names.

        Args:
            reference: Path, name, beginning of a name or an id, or ``latest``: the newest run of
                the kinds, never another user's. A run of another kind stands for the newest run
                that belongs to it, as a search for the training of its winner.

        Raises:
            RequestError: No run matches, or several do.
            StorageError: This user may not enter the directory of the runs, or the run's own.
        """
        if not reference:
            # Each name begins with an empty one.
            raise RequestError(
                "the name of the run is empty",
                hint="A shell variable may be unset. List the runs: tarmac runs list",
            )
        known = [*self._all()]
        paths = (Path(reference), self.output / reference)
        for path in paths:
            for kind in self._kinds:
                # Any file type, even a pipe: the reader reports what is wrong with it.
                if os.path.exists(path / kind.record):  # noqa: PTH110 - False where forbidden
                    # A link is a run of its own, even beside its target: a removal by the link's
                    # name must not delete the target.
                    same = (run for run in known if _is_at(run.path, path))
                    return next(same, FoundRun(kind, path))
        heads = {run.path: _head(run) for run in known}
        known.sort(key=lambda run: heads[run.path].created_at, reverse=True)
        for path in paths:
            inner = self._inner(path)
            if inner:
                return max(inner, key=lambda run: _head(run).created_at)
        if reference == "latest":
            # A run with an owner in the list is not a candidate of its own.
            free = [run for run in known if run.owner not in heads]
            whole = [run for run in free if heads[run.path].is_whole]
            by_record = {run.path / run.kind.record: run for run in whole}
            newest = first_own(by_record)
            # Without a complete run, the reader of the newest reports what is wrong with it.
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
        """Return the error for a reference that no run matches.

        Raises:
            StorageError: This user may not enter the directory of the runs.
        """
        for broken in forbidden_in(self.output):
            if broken.path.name.startswith(reference):
                return StorageError(f"{broken.path}: {broken.reason}")
        kinds = " or ".join(kind.name for kind in self._kinds)
        for path in (Path(reference), self.output / reference):
            for inner in (path, path / _INNER.partition("/")[0]):
                # The user may see the directory, but not read it.
                if os.path.isdir(inner) and not os.access(inner, os.R_OK | os.X_OK):  # noqa: PTH112
                    return StorageError(f"cannot read {inner}: {os.strerror(errno.EACCES)}")
            if os.path.exists(path / _SEARCH):  # noqa: PTH110 - False where forbidden
                if not any(kind.name == "training" for kind in self._kinds):
                    return RequestError(
                        f"{reference} is a search, not a {kinds}",
                        hint=f"See it: tarmac search show {quoted(path)}",
                    )
                return RequestError(
                    f"{reference} is a search without a trained winner",
                    hint=f"Resume it: tarmac search --resume {quoted(path)}",
                )
        names = "\n".join(in_one_line(run.path.name) for run in known[:_MAX_NAMES])
        hint = (
            f"Newest there:\n{names}"
            if names
            else f"No {kinds} is there. Name the directory of your runs: --output DIR, or "
            "TARMAC_RUNS"
        )
        return RequestError(f"there is no run {reference!r} in {self.output} ({kinds})", hint=hint)

    def remove(self, run: FoundRun) -> None:
        """Delete a run's directory, with the runs that belong to it.

        The record is deleted last, so that a partly deleted run stays a run.

        Raises:
            RequestError: A process works on the run, the run belongs to another run, or it is a
                link.
            StorageError: The run cannot be deleted.
        """
        if run.path.is_symlink():
            raise RequestError(
                f"{run.path} is a link to {os.path.realpath(run.path)}",
                hint=f"Delete its target: tarmac runs rm {quoted(run.path.resolve())}\n"
                f"or the link alone: rm {quoted(run.path)}",
            )
        if run.owner is not None:
            raise RequestError(
                f"{run.path.name} belongs to {run.owner.name}",
                hint=f"Delete that run: tarmac runs rm {quoted(run.owner)}",
            )
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(run.kind.reserved(run.path))
            except TarmacError as error:
                if isinstance(error, RequestError | StorageError):
                    raise
                # Only the record says whether a process works on the run, here or on a cluster.
                raise TarmacError(
                    error.message, hint=f"If nothing works on it: rm -r {quoted(run.path)}"
                ) from error
            # Rename first, so that no other process finds half of the run.
            doomed = temporary_path(run.path.parent, ".removed")
            with storage_errors(run.path):
                run.path.rename(doomed)
                # A power cut must not bring half of the run back.
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
                    hint="The other files were deleted; the run's record still exists.",
                ) from error
        remove_abandoned(run.path.parent)

    def _inner(self, path: Path) -> list[FoundRun]:
        """Return the runs that belong to the run of a directory."""
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
    """Delete the content of a directory except one file."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != kept:
            os.unlink(entry.path)  # noqa: PTH108 - of a name that scandir gave


@dataclasses.dataclass(frozen=True)
class _Head:
    """The fields that all records have."""

    created_at: datetime
    identifier: str
    is_whole: bool


def _files_below(directory: Path, pattern: str) -> list[Path]:
    """Return matching files in order; none from a directory that this user may not read."""
    # A reference that is no path may be too long for one.
    with contextlib.suppress(OSError):
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


def _is_at(path: Path, reference: Path) -> bool:
    """Whether both paths are the same directory; a link differs from its target."""
    if path.is_symlink() or reference.is_symlink():
        return path.name == reference.name and path.parent.resolve() == reference.parent.resolve()
    return path.resolve() == reference.resolve()


def _fits(run: FoundRun, head: _Head, reference: str) -> bool:
    return run.path.name.startswith(reference) or head.identifier.startswith(reference)

"""The runs at work, found among thousands in a directory, and by local processes.

A change of a run shows in its directory's time stamp: every restart creates or replaces a file in
it. So a run that has ended costs one ``stat`` now and then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tarmac.files import Readings
from tarmac.run_kinds import kind_at, load_glance, load_kind
from tarmac.runs import AT_WORK, BrokenRun, Glance

# Statuses of the runs to show.
_SHOWN = frozenset({*AT_WORK, "unreadable"})

# Intervals at which new runs are listed, and ended runs are checked for a restart.
_LIST_AGAIN_S = 2.0
_ASK_AGAIN_S = 10.0

# A directory that has changed this recently is checked at every look.
_CHANGED_WITHIN_S = 60.0


def _is_locked(path: Path, readings: Readings) -> bool:
    """Return whether a run's lock is held, by a training or a job's runner."""
    return readings.is_held(path / ".lock")


def _has_workers(path: Path, _readings: Readings) -> bool:
    """Return whether workers of a search have leases; each lasts until its worker ends."""
    with contextlib.suppress(OSError):
        return any((path / "workers").iterdir())
    return False


def _may_be_queued(path: Path, readings: Readings) -> bool:
    """Return whether a job has a runner, or an engine that continues without one."""
    if _is_locked(path, readings):
        return True
    record = readings.fields(path / "job-run.json")
    # A damaged record does not name the executor of its tasks.
    return not record or (record.text("executor") or "local") != "local"


# By the kind of run: whether a run may be at work, by a test that is cheap enough for thousands.
_MAY_BE_AT_WORK: Mapping[str, Callable[[Path, Readings], bool]] = {
    "training": _is_locked,
    "search": _has_workers,
    "job": _may_be_queued,
}


class _Seen:
    """A directory that was read: its kind of run, and its time stamp at that time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kind: str | None = None
        self.stamp: int | None = None
        self.is_at_work = False


class RunDiscovery:
    """A reader of the glances of runs at work.

    Args:
        output: Directory that holds the runs.
        readings: Cache of the run files that were read before.
        clock: Monotonic clock in seconds, replaced in tests.
    """

    def __init__(
        self, output: Path, readings: Readings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._output = output
        self._readings = readings
        self._clock = clock
        self._seen: dict[Path, _Seen] = {}
        self._listed_at: float | None = None
        self._asked_at: float | None = None

    def look(self, others: Iterable[Path] = ()) -> tuple[Glance, ...]:
        """Return the runs at work, sorted by name.

        Args:
            others: Directories of runs elsewhere that processes of this machine work on.
        """
        now = self._clock()
        if self._listed_at is None or now - self._listed_at >= _LIST_AGAIN_S:
            self._listed_at = now
            self._list()
        for path in others:
            self._seen.setdefault(path, _Seen(path))
        asks_all = self._asked_at is None or now - self._asked_at >= _ASK_AGAIN_S
        if asks_all:
            self._asked_at = now
        glances: list[Glance] = []
        for seen in self._seen.values():
            if seen.is_at_work or seen.stamp is None or asks_all:
                glance = self._glance(seen)
                if glance is not None:
                    glances.append(glance)
        glances.sort(key=lambda glance: (glance.path.parent != self._output, glance.name))
        return _with_names_apart(glances)

    def last_of(self, path: Path) -> Glance | None:
        """Return the state of a run that was at work before; None if it is gone."""
        kind = kind_at(path)
        return None if kind is None else self._read(kind, path)

    def _read(self, kind: str, path: Path) -> Glance:
        """Return a run's glance; unreadable if a reader raises any exception on its files.

        One damaged run must not hide all others.
        """
        glance = Glance(kind, path.name, path, "unknown", locks=(path / ".lock",))
        try:
            glance = load_glance(kind)(path, self._readings)
            # A glance raises no error on a damaged record, but lacks its status or its time.
            is_vague = glance.status in _SHOWN and glance.created_at is None
            if glance.status == "unknown" or is_vague:
                load_kind(kind).summarize(path)
        except Exception as error:
            if kind_at(path) is None:
                # The run was removed meanwhile.
                return glance
            reason = BrokenRun.of(path, error).reason
            return dataclasses.replace(glance, status="unreadable", note=reason)
        return glance

    def _list(self) -> None:
        """Add new directories, and drop those that are gone."""
        try:
            with os.scandir(self._output) as entries:
                names = [e.name for e in entries if not e.name.startswith(".")]
        except OSError:
            return
        listed = {self._output / name for name in names}
        for path in listed - self._seen.keys():
            self._seen[path] = _Seen(path)
        for path in self._seen.keys() - listed:
            if path.parent == self._output:
                del self._seen[path]

    def _glance(self, seen: _Seen) -> Glance | None:
        """Return a run's glance if it is at work."""
        try:
            stamp = seen.path.stat().st_mtime_ns
        except OSError:
            seen.is_at_work, seen.stamp = False, 0
            return None
        if seen.stamp == stamp and not seen.is_at_work:
            return None
        seen.kind = seen.kind or kind_at(seen.path)
        glance = None
        if seen.kind is not None and _MAY_BE_AT_WORK[seen.kind](seen.path, self._readings):
            glance = self._read(seen.kind, seen.path)
        seen.is_at_work = glance is not None and glance.status in _SHOWN
        # A new change may be followed by another within one tick of the file system's clock.
        is_new = time.time() - stamp / 1e9 < _CHANGED_WITHIN_S
        seen.stamp = None if is_new else stamp
        return glance if seen.is_at_work else None


def _with_names_apart(glances: Iterable[Glance]) -> tuple[Glance, ...]:
    """Return glances; a later run whose name is taken is named by its path."""
    by_name: dict[str, Glance] = {}
    for glance in glances:
        if glance.name in by_name:
            by_name[str(glance.path)] = dataclasses.replace(glance, name=str(glance.path))
        else:
            by_name[glance.name] = glance
    return tuple(by_name.values())


def runs_among(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the directories that are runs."""
    return tuple(path for path in paths if kind_at(path) is not None)

"""An index of all runs in a directory, which avoids reading unchanged runs again.

The directories are the truth. For each run that has ended, the index stores its summary and the
state of the files that it was read from. A run is read again if these files have changed, and while
it is active. No writer has to update the index, and its file may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import platformdirs

from tarmac.files import StorageError, parse_json, read_regular, write_text
from tarmac.runs.catalogue import default_output, forbidden_in
from tarmac.runs.kind import BrokenRun, RunKind, RunSummary

# Version of the stored index; an index of another version is rebuilt.
_VERSION = 2

# A file that changed within this time may change again with the same time stamp: clocks of file
# systems tick every few milliseconds, those of some every second or two.
_YOUNG_NS = 3_000_000_000

# An index unchanged for this time is deleted; it is rebuilt in a second if its directory still
# exists.
_KEPT_S = 30 * 86_400.0

# An index begins with its directory's path. If the path is longer, only the age of the index tells
# that it is unused.
_HEAD_BYTES = 8192
_HEAD = f'{{"version":{_VERSION},"output":'

# Modification time, size and inode of a file; None for a missing file.
_Look = tuple[int, int, int] | None

# Names that identify a kind's runs without importing the kind: its record and its other marks.
_Shape = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Known:
    """A run that has ended, with the state of its marks when it was read."""

    looks: tuple[_Look, ...]
    summary: RunSummary


class RunIndex:
    """The runs in a directory, of every kind.

    Args:
        names: Names of the kinds to index, such as ``training``.
        load: Returns a kind by its name. It is called only for kinds with a run to read: importing
            a kind may take longer than listing all runs.
        output: Directory of the runs; by default `tarmac.runs.default_output`.
        store: File of the index; by default a file per directory in the user's cache.
    """

    def __init__(
        self,
        names: Sequence[str],
        load: Callable[[str], RunKind],
        output: Path | None = None,
        store: Path | None = None,
    ) -> None:
        self.output = output or default_output()
        self._names = tuple(names)
        self._load = load
        self._kinds: dict[str, RunKind] = {}
        self._store = store or _store_of(self.output)
        self._shapes, self._known = _read_store(self._store, self.output)
        self._is_stored = True
        for name in self._names:
            if name not in self._shapes:
                self._kind(name)

    def summaries(
        self, kinds: Sequence[str] = ()
    ) -> tuple[Sequence[RunSummary], Sequence[BrokenRun]]:
        """Return the summaries of all runs, newest first, and the unreadable runs.

        Args:
            kinds: Names of the kinds to return. Default: all kinds.
        """
        summaries: list[RunSummary] = []
        broken: list[BrokenRun] = []
        # Raises for an unreadable directory. Unreadable runs below it are reported by the loop.
        forbidden_in(self.output)
        known: dict[str, _Known] = {}
        for name, place in self._places():
            kind = ""
            try:
                kind, looks = self._marks(name, place)
                summary = self._summary(kind, name, place, looks, known) if looks else None
            except Exception as error:
                # A run removed since the listing is no broken run.
                is_asked_for = not kinds or not kind or kind in kinds
                if is_asked_for and os.path.lexists(place):
                    broken.append(BrokenRun.of(Path(place), error))
            else:
                if summary is not None and (not kinds or kind in kinds):
                    summaries.append(summary)
        self._is_stored = self._is_stored and known.keys() == self._known.keys()
        self._known = known
        self._write()
        summaries.sort(key=lambda summary: summary.created_at, reverse=True)
        return summaries, broken

    def _marks(self, name: str, place: str) -> tuple[str, tuple[_Look, ...]]:
        """Return the kind of a directory's run and its marks' state; both empty without a run."""
        before = self._known.get(name)
        likely = () if before is None else (before.summary.kind,)
        for kind in (*likely, *self._names):
            # Taken before the run is read, so that the next call notices a change in between.
            record, *others = self._shapes[kind]
            look = _look_of(f"{place}/{record}")
            if look is not None:
                return kind, (look, *(_look_of(f"{place}/{mark}") for mark in others))
        return "", ()

    def _summary(
        self,
        kind: str,
        name: str,
        place: str,
        looks: tuple[_Look, ...],
        known: dict[str, _Known],
    ) -> RunSummary:
        before = self._known.get(name)
        if before is not None and before.looks == looks and before.summary.kind == kind:
            known[name] = before
            return before.summary
        now_ns = time.time_ns()
        summary = self._kind(kind).summarize(Path(place))
        newest_ns = max(look[0] for look in looks if look is not None)
        if summary.status in self._kind(kind).settled and newest_ns < now_ns - _YOUNG_NS:
            known[name] = _Known(looks, summary)
            self._is_stored = False
        return summary

    def _kind(self, name: str) -> RunKind:
        """Load a kind; forget its known runs if its marks have changed."""
        if name not in self._kinds:
            kind = self._kinds[name] = self._load(name)
            shape = (kind.record, *kind.marks)
            if self._shapes.get(name) != shape:
                self._shapes[name] = shape
                self._known = {
                    key: run for key, run in self._known.items() if run.summary.kind != name
                }
                self._is_stored = False
        return self._kinds[name]

    def _places(self) -> Iterator[tuple[str, str]]:
        """Yield each directory that may be a run: its path from the output, and its full path."""
        for name, place in _directories(str(self.output)):
            yield name, place
            for inner, inner_place in _directories(f"{place}/best"):
                yield f"{name}/best/{inner}", inner_place

    def _write(self) -> None:
        if self._is_stored:
            return
        content = {
            "version": _VERSION,
            "output": str(self.output.resolve()),
            "kinds": self._shapes,
            "runs": [[name, run.looks, *_plain(run.summary)] for name, run in self._known.items()],
        }
        if not os.path.lexists(self._store):
            _sweep(self._store.parent)
        # Without a store, the next call only reads everything again.
        with contextlib.suppress(StorageError):
            text = json.dumps(content, separators=(",", ":"))
            write_text(self._store, f"{text}\n{_checksum(text.encode())}", is_private=True)
            self._is_stored = True


def _directories(above: str) -> Iterator[tuple[str, str]]:
    """Yield the names and paths of a directory's subdirectories, without hidden ones."""
    try:
        with os.scandir(above) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and _is_directory(entry):
                    yield entry.name, f"{above}/{entry.name}"
    except OSError:
        return


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # A link to itself, or to a place that this user may not read.
        return False


def _look_of(path: str) -> _Look:
    try:
        stat = os.stat(path)  # noqa: PTH116 - for ten thousand runs, Path takes longer than the kernel
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _store_of(output: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(output.resolve())).hexdigest()
    return platformdirs.user_cache_path("tarmac") / "runs" / f"{digest[:32]}.json"


def _sweep(directory: Path) -> None:
    """Delete indexes of missing directories, and indexes unchanged for a month."""
    oldest = time.time() - _KEPT_S
    with contextlib.suppress(OSError):
        for index in directory.glob("*.json"):
            if index.stat().st_mtime < oldest or _is_of_none(index):
                index.unlink(missing_ok=True)


def _is_of_none(index: Path) -> bool:
    """Whether the directory of an index is missing."""
    with index.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode(errors="replace")
    if not head.startswith(_HEAD):
        return False
    try:
        output, _ = json.JSONDecoder().raw_decode(head, len(_HEAD))
        os.stat(output)  # noqa: PTH116 - says why, where Path.exists does not
    except FileNotFoundError:
        return True
    except (OSError, ValueError, TypeError):
        # An unreachable directory, on a disk that gives no answer, may exist.
        return False
    return False


def _checksum(text: bytes) -> str:
    """Return a checksum; a flipped bit might otherwise hide a run from every list."""
    return f"{zlib.crc32(text):08x}"


def _plain(summary: RunSummary) -> list[object]:
    return [
        summary.kind,
        summary.status,
        summary.created_at.isoformat(),
        summary.elapsed_s,
        summary.workload,
        summary.result,
        dict(summary.metrics),
    ]


def _read_store(store: Path, output: Path) -> tuple[dict[str, _Shape], dict[str, _Known]]:
    """Return the stored kinds and runs; both empty where they cannot be read."""
    try:
        text, _, checksum = read_regular(store).rpartition(b"\n")
        content = parse_json(text) if checksum.decode() == _checksum(text) else {}
        if content["version"] != _VERSION or content["output"] != str(output.resolve()):
            return {}, {}
        shapes = {name: tuple(map(str, shape)) for name, shape in content["kinds"].items()}
        runs = (_stored_run(row, str(output)) for row in content["runs"])
        return shapes, {name: run for name, run in runs if run.summary.kind in shapes}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}, {}


def _stored_run(row: Sequence[Any], above: str) -> tuple[str, _Known]:
    name, looks, kind, status, created_at, elapsed_s, workload, result, metrics = row
    summary = RunSummary(
        kind=kind,
        path=Path(f"{above}/{name}"),
        status=status,
        created_at=datetime.fromisoformat(created_at),
        elapsed_s=elapsed_s,
        workload=workload,
        result=result,
        metrics=metrics,
    )
    return name, _Known(tuple(None if look is None else (*look,) for look in looks), summary)

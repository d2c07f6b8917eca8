"""An index of all runs in a directory: what has not changed is not read again.

The directories are the truth. The index remembers of each run that has ended what its summary was,
and how the files looked that it was read from; a run whose files look otherwise is read, and one
that is at work. So nothing has to tell it of a run, and its file may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
import zlib
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from tarmac.files import StorageError, parse_json, read_regular, write_text
from tarmac.runs.catalogue import BrokenRun, RunSummary, default_output, forbidden_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tarmac.runs.catalogue import RunKind

# Of what is stored: another one is read anew.
_VERSION = 2

# A file that changed so lately may change again without looking otherwise: clocks of file systems
# tick every few milliseconds, those of some every second or two.
_YOUNG_NS = 3_000_000_000

# Of a directory in which nothing has changed for so long: it is read again in a second where it is
# still there.
_KEPT_S = 30 * 86_400.0

# An index begins with whose it is. Of a path that is longer, only time says that it is of no use.
_HEAD_BYTES = 8192
_HEAD = f'{{"version":{_VERSION},"output":'

# How a file looks: when it was written, its length and its number; None where there is none.
_Look = tuple[int, int, int] | None

# What finds runs of a kind without the kind's own room: its record, and its other marks.
_Shape = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Known:
    """A run that has ended, and how its marks looked when it was read."""

    looks: tuple[_Look, ...]
    summary: RunSummary


class RunIndex:
    """The runs in a directory, of every kind.

    Args:
        names: Names of the kinds to index, such as ``training``.
        load: Returns a kind by its name. It is called for those alone of which a run must be read:
            what describes a kind may take longer to import than all runs take to list.
        output: Where the runs lie; `tarmac.runs.default_output` if not given.
        store: The index's file; by default one for each directory in the user's cache.
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
        """Return all runs, the newest first, and those that cannot be read.

        Args:
            kinds: The names of those to return; all if none is given.
        """
        summaries: list[RunSummary] = []
        broken: list[BrokenRun] = []
        # It raises where this user may not look into it; what is below is met one by one.
        forbidden_in(self.output)
        known: dict[str, _Known] = {}
        for name, place in self._places():
            kind = ""
            try:
                kind, looks = self._marks(name, place)
                summary = self._summary(kind, name, place, looks, known) if looks else None
            except Exception as error:
                # One that was removed since it was found is none.
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
        """Return of which kind a directory is a run, and how its marks look; none of no run's."""
        before = self._known.get(name)
        likely = () if before is None else (before.summary.kind,)
        for kind in (*likely, *self._names):
            # Before it is read: what changes meanwhile is seen the next time.
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
        """Load a kind; what was known of its runs is forgotten where it has other marks now."""
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
        """Yield each directory that may be a run's: its path from the output, and its path."""
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
        # Without it everything is read again, which is slow and no failure.
        with contextlib.suppress(StorageError):
            text = json.dumps(content, separators=(",", ":"))
            write_text(self._store, f"{text}\n{_checksum(text.encode())}", is_private=True)
            self._is_stored = True


def _directories(above: str) -> Iterator[tuple[str, str]]:
    """Yield the names and paths of a directory's directories, without hidden ones."""
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
        # A link that leads to itself, or to where this user may not look.
        return False


def _look_of(path: str) -> _Look:
    try:
        stat = os.stat(path)  # noqa: PTH116 - of ten thousand runs, Path takes longer than the kernel
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _store_of(output: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(output.resolve())).hexdigest()
    return platformdirs.user_cache_path("tarmac") / "runs" / f"{digest[:32]}.json"


def _sweep(directory: Path) -> None:
    """Remove indexes of directories that are gone, and those that have not changed for a month."""
    oldest = time.time() - _KEPT_S
    with contextlib.suppress(OSError):
        for index in directory.glob("*.json"):
            if index.stat().st_mtime < oldest or _is_of_none(index):
                index.unlink(missing_ok=True)


def _is_of_none(index: Path) -> bool:
    """Whether an index is of a directory that is not there."""
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
        # What cannot be asked, on a disk that does not answer for one, may be there.
        return False
    return False


def _checksum(text: bytes) -> str:
    """Return what a flipped bit changes, which might hide a run from every list."""
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
    """Return what was stored of the kinds and of the runs; nothing where that cannot be read."""
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

"""A run's copy in an object store, where ``output`` is a URI; it follows the run as it is trained.

Whenever the copy stops, a later session can go on from it. The order of a pass sees to that: a
checkpoint goes up after the lines of ``metrics.jsonl`` that led to it, for a line without its
checkpoint is dropped on resume and a lost line is lost for good. ``run.json`` follows all that it
speaks of, and an older checkpoint leaves the store after a newer one has arrived.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.files import delete_object, list_objects, put_object, read_errors, write_object
from tarmac.training.shard_directories import POSITION, SHARDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tarmac.runs import Run

RECORD = "run.json"
_METRICS = "metrics.jsonl"
_CHECKPOINTS = "checkpoints/"

# Also the least pause between two passes, as each request of a store costs money.
LOOK_INTERVAL_S = 1.0
MAX_PAUSE_S = 60.0

# Smaller files are read first: what is appended to meanwhile would have another length than said.
_MAX_READ_BYTES = 8 * 2**20

# When a file was written, its length and its number.
_Look = tuple[int, int, int]


@contextlib.contextmanager
def uploaded(uri: str | None = None) -> Iterator[Callable[[Run], None]]:
    """Copy the runs that a block works on into a store, also where the block fails or is stopped.

    A thread beside the block uploads what is new, at most once a second: the newest checkpoint, the
    metrics, the events, the record. A store that fails is warned of once and tried again. The
    whole run is there when the block ends.

    Args:
        uri: Below which a run becomes a directory of its name. Default: the one that the run's
            record names; a run without one is left alone.

    Yields:
        A function to call with each run.

    Raises:
        TarmacError: The store does not take a run, which is whole on this machine all the same.
    """
    copies: list[_Copy] = []

    def begin(run: Run) -> None:
        above = uri or run.record.uploaded_to
        if above is not None:
            copies.append(_Copy(run, f"{above.rstrip('/')}/{run.name}"))

    try:
        yield begin
    except BaseException:
        # What failed first is what is to be said.
        with contextlib.suppress(TarmacError):
            _finish(copies)
        raise
    _finish(copies)


def _finish(copies: Iterable[_Copy]) -> None:
    for copy in copies:
        copy.finish()


class _Gone(TarmacError):  # noqa: N818 - the newer checkpoint goes up instead
    """A file was removed before it was uploaded: there is a newer checkpoint."""


class _Copy:
    """The copy of a run, and the thread that brings it up to date.

    Args:
        run: Run to copy to the store.
        uri: URI of the copy's directory, named after the run.
    """

    def __init__(self, run: Run, uri: str) -> None:
        self._run = run
        self._uri = uri
        self._sent: dict[str, _Look] = {}
        self._stored: set[str] | None = None
        self._is_over = threading.Event()
        # An upload that hangs must not keep an interrupted process alive.
        self._thread = threading.Thread(target=self._follow, name="tarmac-upload", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Upload all that is not there yet.

        Raises:
            TarmacError: The store does not take it.
        """
        self._is_over.set()
        self._thread.join()
        try:
            self._send(is_last=True)
        except TarmacError as error:
            hint = f"The run is whole in {self._run.path}"
            raise TarmacError(error.message, hint=hint) from error

    def _follow(self) -> None:
        seen: Mapping[str, _Look] = {}
        pause_s, has_warned = LOOK_INTERVAL_S, False
        while True:
            try:
                # Samples and logs change at any time, and ride along.
                looks = self._looks()
                marks = {name: looks[name] for name in looks if _is_mark(name)}
                if marks != seen:
                    self._send(is_last=False)
                    seen, pause_s = marks, LOOK_INTERVAL_S
            except _Gone:
                pass
            except TarmacError as error:
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                if not has_warned:
                    has_warned = True
                    text = f"the run is not copied, which is tried again: {error.message}"
                    warnings.warn(text, stacklevel=2)
            if self._is_over.wait(pause_s):
                return

    def _send(self, *, is_last: bool) -> None:
        """Upload what has changed: all of it, or of the checkpoints the newest and the best."""
        # In the opposite order to that of the upload: the record speaks of files that are listed,
        # and the metrics have the lines that led to these checkpoints.
        record_look = self._look(RECORD)
        with read_errors(self._run.path / RECORD):
            record = (self._run.path / RECORD).read_bytes()
        names = self._looks()
        entries: dict[str, list[str]] = {}
        for name in names:
            if name.startswith(_CHECKPOINTS):
                entries.setdefault(name.split("/")[1], []).append(name)
        numbered = sorted(entry for entry in entries if entry.startswith("epoch-"))
        newest = numbered[-1:]
        for name in names:
            if not name.startswith(_CHECKPOINTS) and name != RECORD:
                self._put(name)
        # The best may be one that the newest follows.
        for entry in sorted(entries.keys() - {*numbered}) + (numbered if is_last else newest):
            self._put_checkpoint(entries[entry])
        if record_look is not None and self._sent.get(RECORD) != record_look:
            write_object(f"{self._uri}/{RECORD}", record, os.environ)
            self._sent[RECORD] = record_look
        for name in sorted(self._in_store(), key=lambda name: not name.endswith(POSITION)):
            # Newer ones are another session's.
            entry = name.split("/")[1] if name.startswith(_CHECKPOINTS + "epoch-") else ""
            if newest and entry and entry not in entries and entry < newest[0]:
                self._remove(name)

    def _put_checkpoint(self, names: Sequence[str]) -> None:
        """Upload a file, or a directory whose position says that all of it is there."""
        changed = [name for name in names if self._sent.get(name) != self._look(name)]
        position = next((name for name in names if name.endswith(f"/{POSITION}")), "")
        if changed and position in self._in_store():
            # Parts of two checkpoints of one name are none.
            self._remove(position)
            changed.append(position)
        for name in sorted({*changed}, key=lambda name: name == position):
            self._put(name)

    def _put(self, name: str) -> None:
        path = self._run.path / name
        look = self._look(name)
        if look is not None and self._sent.get(name) == look:
            return
        uri = f"{self._uri}/{name}"
        try:
            if look is not None and look[1] < _MAX_READ_BYTES:
                write_object(uri, path.read_bytes(), os.environ)
            else:
                put_object(path, uri, os.environ)
        except (TarmacError, OSError) as error:
            if not path.exists():
                raise _Gone(f"{path} is gone") from error
            raise TarmacError(str(getattr(error, "message", error))) from error
        assert look is not None
        self._sent[name] = look
        self._in_store().add(name)

    def _remove(self, name: str) -> None:
        # A store that takes objects alone is no fault.
        with contextlib.suppress(TarmacError):
            delete_object(f"{self._uri}/{name}", os.environ)
        self._in_store().discard(name)
        self._sent.pop(name, None)

    def _in_store(self) -> set[str]:
        """Return the names of what the store has, as far as it says that."""
        if self._stored is None:
            self._stored = set()
            with contextlib.suppress(TarmacError):
                uris = list_objects(self._uri, os.environ)
                self._stored = {uri.removeprefix(f"{self._uri}/") for uri in uris}
        return self._stored

    def _looks(self) -> Mapping[str, _Look]:
        """Return the names of the run's files, and how they look now."""
        looks = {}
        try:
            paths = sorted(path for path in self._run.path.rglob("*") if path.is_file())
        except FileNotFoundError as error:
            raise _Gone(f"a directory of {self._run.path} is gone") from error
        for path in paths:
            name = path.relative_to(self._run.path).as_posix()
            # Files and directories that begin with a dot are locks and halves, but not in shards.
            parts = name.partition(f"{SHARDED}/")[0].split("/")
            look = None if any(part.startswith(".") for part in parts) else self._look(name)
            if look is not None:
                looks[name] = look
        return looks

    def _look(self, name: str) -> _Look | None:
        try:
            status = (self._run.path / name).stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _is_mark(name: str) -> bool:
    """Whether a change of a file is one that a later session would miss."""
    return name in (RECORD, _METRICS) or name.startswith(_CHECKPOINTS)

"""A run's copy in an object store, if ``output`` is a URI, updated during the training.

Whenever the updates stop, a later session can resume from the copy. The order of uploads ensures
that. A checkpoint follows the lines of ``metrics.jsonl`` that led to it: resuming drops a line
without its checkpoint, but a lost line cannot be restored. ``run.json`` follows all files that it
names. An older checkpoint is deleted after a newer one has arrived.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tarmac.errors import TarmacError
from tarmac.files import delete_object, list_objects, put_object, read_errors, write_object
from tarmac.runs import Run
from tarmac.training.shard_directories import POSITION, SHARDED

RECORD = "run.json"
_METRICS = "metrics.jsonl"
_CHECKPOINTS = "checkpoints/"

# Also the least pause between two uploads, as each request to a store costs money.
LOOK_INTERVAL_S = 1.0
MAX_PAUSE_S = 60.0

# Smaller files are read first, as a file that grows during its upload would exceed its length.
_MAX_READ_BYTES = 8 * 2**20

# The time at which a file was written, its length and its inode.
_Look = tuple[int, int, int]


@contextlib.contextmanager
def uploaded(uri: str | None = None) -> Iterator[Callable[[Run], None]]:
    """Copy the context's runs into a store, even if the context fails or is stopped.

    A thread uploads new files, at most once a second: the newest checkpoint, the metrics, the
    events, the record. If the store fails, the thread warns once and retries. At the end of the
    context the whole run is in the store.

    Args:
        uri: URI below which a run becomes a directory of its name. Default: the URI in the run's
            record; a run without one is not copied.

    Yields:
        A function to call with each run.

    Raises:
        TarmacError: The store does not accept a run, which is still complete on this machine.
    """
    copies: list[_Copy] = []

    def begin(run: Run) -> None:
        above = uri or run.record.uploaded_to
        if above is not None:
            copies.append(_Copy(run, f"{above.rstrip('/')}/{run.name}"))

    try:
        yield begin
    except BaseException:
        # The context's own error takes precedence over the upload's.
        with contextlib.suppress(TarmacError):
            _finish(copies)
        raise
    _finish(copies)


def _finish(copies: Iterable[_Copy]) -> None:
    for copy in copies:
        copy.finish()


class _Gone(TarmacError):  # noqa: N818 - the newer checkpoint goes up instead
    """The error that a newer checkpoint has replaced a file before its upload."""


class _Copy:
    """The copy of a run, and the thread that updates it.

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
        # A daemon, as an upload that hangs must not keep an interrupted process alive.
        self._thread = threading.Thread(target=self._follow, name="tarmac-upload", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Upload all files that are not in the store yet.

        Raises:
            TarmacError: The store does not accept them.
        """
        self._is_over.set()
        self._thread.join()
        try:
            self._send(is_last=True)
        except TarmacError as error:
            hint = f"The complete run is in {self._run.path}"
            raise TarmacError(error.message, hint=hint) from error

    def _follow(self) -> None:
        seen: Mapping[str, _Look] = {}
        pause_s, has_warned = LOOK_INTERVAL_S, False
        while True:
            try:
                # Samples and logs change all the time, and are uploaded along with other changes.
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
                    text = f"the run could not be copied, trying again: {error.message}"
                    warnings.warn(text, stacklevel=2)
            if self._is_over.wait(pause_s):
                return

    def _send(self, *, is_last: bool) -> None:
        """Upload all changed files; before the last upload only the newest and best checkpoints."""
        # Read in the reverse order of the upload: the record names only files that are listed, and
        # the metrics include the lines that led to these checkpoints.
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
        # Upload the best checkpoint first, as it may be older than the newest.
        for entry in sorted(entries.keys() - {*numbered}) + (numbered if is_last else newest):
            self._put_checkpoint(entries[entry])
        if record_look is not None and self._sent.get(RECORD) != record_look:
            write_object(f"{self._uri}/{RECORD}", record, os.environ)
            self._sent[RECORD] = record_look
        for name in sorted(self._in_store(), key=lambda name: not name.endswith(POSITION)):
            # A newer checkpoint in the store belongs to another session.
            entry = name.split("/")[1] if name.startswith(_CHECKPOINTS + "epoch-") else ""
            if newest and entry and entry not in entries and entry < newest[0]:
                self._remove(name)

    def _put_checkpoint(self, names: Sequence[str]) -> None:
        """Upload a checkpoint: a file, or a directory whose position marks it as complete."""
        changed = [name for name in names if self._sent.get(name) != self._look(name)]
        position = next((name for name in names if name.endswith(f"/{POSITION}")), "")
        if changed and position in self._in_store():
            # Files of two checkpoints with one name are no valid checkpoint.
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
        # A store that does not allow deletion is no error.
        with contextlib.suppress(TarmacError):
            delete_object(f"{self._uri}/{name}", os.environ)
        self._in_store().discard(name)
        self._sent.pop(name, None)

    def _in_store(self) -> set[str]:
        """Return the names of files in the store; empty if the store cannot list them."""
        if self._stored is None:
            self._stored = set()
            with contextlib.suppress(TarmacError):
                uris = list_objects(self._uri, os.environ)
                self._stored = {uri.removeprefix(f"{self._uri}/") for uri in uris}
        return self._stored

    def _looks(self) -> Mapping[str, _Look]:
        """Return the names of the run's files, with their current state."""
        looks = {}
        try:
            paths = sorted(path for path in self._run.path.rglob("*") if path.is_file())
        except FileNotFoundError as error:
            raise _Gone(f"a directory of {self._run.path} is gone") from error
        for path in paths:
            name = path.relative_to(self._run.path).as_posix()
            # Names that begin with a dot are locks and partial files, except within shards.
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
    """Return whether a later session needs the changes of a file."""
    return name in (RECORD, _METRICS) or name.startswith(_CHECKPOINTS)

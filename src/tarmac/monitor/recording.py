"""Recordings: snapshots in a file, a line of JSON each, and their replay."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from tarmac.files import append_lines, parse_line, read_errors
from tarmac.monitor.plain import NewerVersionError, RecordingError, from_json, to_json
from tarmac.monitor.snapshot import Snapshot

# A longer line is not a snapshot: for 100 hosts, a line has some MB.
_MAX_BYTES = 2**28


class Recorder:
    """A `Tap` that appends each snapshot to a file.

    A line is written whole or not at all, so a recording may be interrupted at any moment.

    Args:
        path: File of the recording. Created if missing, else continued.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self, snapshot: Snapshot) -> str:
        """Append a snapshot.

        Raises:
            StorageError: The snapshot could not be written; the recording is unchanged.
        """
        append_lines(self._path, [to_json(snapshot)])
        return ""

    def close(self) -> None:
        """Do nothing: all snapshots are written."""


class ReplayFeed:
    """The replay of a recording, in real time or faster.

    Unreadable lines, such as a line that was cut off, are skipped.

    Args:
        path: Recording to replay, as `tarmac top --record` writes it.
        speed: Factor by which the replay is faster than real time; None for no pauses. Default 1.
        sleep: Function that waits for some seconds, replaced in tests.
        clock: Monotonic clock in seconds, replaced in tests.

    Raises:
        StorageError: The file cannot be read.
        RecordingError: The file holds no snapshot, or begins with one of a newer version.
    """

    def __init__(
        self,
        path: Path,
        *,
        speed: float | None = 1.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._speed = speed
        self._sleep, self._clock = sleep, clock
        with read_errors(path):
            self._file = path.open("rb")
        self._snapshots = _snapshots(self._file, path)
        self._due_at: float | None = None
        self._last: Snapshot | None = None
        try:
            self._following: Snapshot | None = next(self._snapshots)
        except (StopIteration, RecordingError) as error:
            self._file.close()
            if isinstance(error, RecordingError):
                raise
            raise RecordingError(
                f"{path} holds no snapshot",
                hint="Make a recording: tarmac top --record FILE",
            ) from None

    def next(self) -> Snapshot:
        """Return the next snapshot, once it is due.

        Raises:
            StopIteration: The recording has ended.
        """
        snapshot = self._following
        if snapshot is None:
            raise StopIteration
        if self._speed is not None and self._last is not None and self._due_at is not None:
            passed_s = max(0.0, (snapshot.at - self._last.at).total_seconds())
            self._due_at += passed_s / self._speed
            self._sleep(max(0.0, self._due_at - self._clock()))
        else:
            self._due_at = self._clock()
        self._last, self._following = snapshot, next(self._snapshots, None)
        return snapshot

    def close(self) -> None:
        """Close the file."""
        self._following = None
        self._file.close()


def _snapshots(file: IO[bytes], path: Path) -> Iterator[Snapshot]:
    """Yield the readable snapshots; fail if a newer version comes before any of them."""
    is_known = False
    while True:
        with read_errors(path):
            line = file.readline(_MAX_BYTES)
        if not line:
            return
        with contextlib.suppress(ValueError):
            value = parse_line(line.rstrip(b"\n"))
            try:
                snapshot = from_json(value)
            except NewerVersionError:
                if not is_known:
                    raise
                continue
            except RecordingError:
                continue
            is_known = True
            yield snapshot

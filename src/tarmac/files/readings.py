"""A cache of polled files: only changed files and appended lines are read again.

Example:
    >>> from tarmac.files import Readings, append_lines
    >>> readings = Readings()
    >>> append_lines(tmp_path / "metrics.jsonl", [{"epoch": 1}])
    >>> readings.lines(tmp_path / "metrics.jsonl", list, lambda rows, row: rows.append(row))
    [{'epoch': 1}]
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from tarmac.files.atomic import open_record, read_regular
from tarmac.files.fields import Fields
from tarmac.files.holders import LeaseWatch
from tarmac.files.hosts_locks import is_held
from tarmac.files.journal import parse_line
from tarmac.files.mounts import is_network, mounts_seen
from tarmac.files.parsing import parse_json

_T = TypeVar("_T")

# Size of each read of a growing file.
_CHUNK_BYTES = 2**20


@dataclasses.dataclass
class _Whole:
    """The value read from a file that is replaced as a whole, with the file's state."""

    stamp: tuple[int, int, int]
    value: object


@dataclasses.dataclass
class _Growing:
    """The state after reading the lines of a growing file up to `offset`."""

    inode: int
    reader: object
    state: object
    offset: int = 0
    stamp: tuple[int, int, int] | None = None


class Readings:
    """A cache of the values of polled files; a poll of an unchanged file costs one ``stat``.

    It is for readers of files that other processes write. A file that is missing, unreadable, no
    JSON or incomplete is no error: its values are unknown.

    Args:
        most: Maximum number of cached files; the least recently used are dropped. Default 4096.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._whole: dict[Path, _Whole] = {}
        self._growing: dict[Path, _Growing] = {}
        self._on_network: dict[Path, bool] = {}
        # By device, because resolving a path takes a call per part, and there are many runs. Both
        # caches are cleared after any mount.
        self._network_devices: dict[int, bool] = {}
        self._mounts_seen = mounts_seen()
        self._leases = LeaseWatch()

    def is_on_network(self, path: Path) -> bool:
        """Whether other hosts may write a file too; see `is_network`."""
        if self._mounts_seen != (seen := mounts_seen()):
            self._mounts_seen = seen
            self._on_network.clear()
            self._network_devices.clear()
        if path not in self._on_network:
            _keep(self._on_network, path, self._ask_of_network(path), self._most)
        return self._on_network[path]

    def _ask_of_network(self, path: Path) -> bool:
        try:
            device = path.parent.stat().st_dev
        except OSError:
            return is_network(path)
        if device not in self._network_devices:
            self._network_devices[device] = is_network(path)
        return self._network_devices[device]

    def is_held(self, path: Path) -> bool:
        """Whether the holder of a lock is alive, on another host as far as can be seen.

        See `tarmac.files.is_held`.
        """
        return is_held(path, self._leases, is_remote=self.is_on_network(path))

    def fields(self, path: Path) -> Fields:
        """Return the fields of a file's JSON object; empty for an unreadable file.

        Args:
            path: File that its writer replaces as a whole, as `write_json` does.
        """
        return self.value(path, _fields_in, Fields({}))

    def value(self, path: Path, read: Callable[[bytes], _T], missing: _T) -> _T:
        """Return the parsed content of a file, which is parsed once for each state of the file.

        Args:
            path: File to read, again only after its modification time, size or inode changes.
            read: Parses the content of the file; raises ValueError if it is invalid.
            missing: Value to return if the file cannot be read or is invalid.
        """
        try:
            stat_result = path.stat()
            stamp = _stamp(stat_result)
            known = self._whole.get(path)
            if known is None or known.stamp != stamp:
                try:
                    value: object = read(read_regular(path))
                except ValueError:
                    value = missing
                known = _Whole(stamp, value)
        except OSError:
            self._whole.pop(path, None)
            return missing
        _keep(self._whole, path, known, self._most)
        return cast("_T", known.value)

    def lines(self, path: Path, start: Callable[[], _T], add: Callable[[_T, Any], object]) -> _T:
        """Return the state after reading all lines of a JSON journal.

        Only lines appended since the last call are read. A replaced or truncated file is read from
        the start. An incomplete last line is left for later, and damaged lines are ignored.

        Args:
            path: Journal of JSON lines that a writer appends to.
            start: Returns the state for an empty file.
            add: Updates the state by a line's value. Another function than before reads from the
                start.
        """
        try:
            stat_result = path.stat()
        except OSError:
            self._growing.pop(path, None)
            return start()
        known = self._growing.get(path)
        stamp = _stamp(stat_result)
        if (
            known is None
            or known.inode != stat_result.st_ino
            or known.reader is not add
            or stat_result.st_size < known.offset
        ):
            known = _Growing(stat_result.st_ino, add, start())
        if known.stamp != stamp:
            try:
                _read_on(path, known, add)
            except OSError:
                return cast("_T", known.state)
            known.stamp = stamp
        _keep(self._growing, path, known, self._most)
        return cast("_T", known.state)


def _stamp(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _fields_in(content: bytes) -> Fields:
    return Fields.of(parse_json(content))


def _read_on(path: Path, known: _Growing, add: Callable[[Any, Any], object]) -> None:
    with open_record(path) as file:
        file.seek(known.offset)
        # Pieces of an incomplete line; joined once, because there may be very many.
        pieces: list[bytes] = []
        while chunk := file.read(_CHUNK_BYTES):
            end, *others = chunk.split(b"\n")
            pieces.append(end)
            if not others:
                continue
            *whole, rest = b"".join(pieces), *others
            pieces = [rest]
            for line in whole:
                known.offset += len(line) + 1
                try:
                    value = parse_line(line)
                except ValueError:
                    continue
                add(known.state, value)


def _keep(kept: dict[Path, Any], path: Path, value: object, most: int) -> None:
    """Store a value as the most recent; drop the oldest value above the limit."""
    kept.pop(path, None)
    kept[path] = value
    if len(kept) > most:
        del kept[next(iter(kept))]

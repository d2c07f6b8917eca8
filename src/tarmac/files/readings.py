"""Files that are looked at again and again: only what has changed or grown is read again.

Example:
    >>> from tarmac.files import Readings, append_lines
    >>> readings = Readings()
    >>> append_lines(tmp_path / "metrics.jsonl", [{"epoch": 1}])
    >>> readings.lines(tmp_path / "metrics.jsonl", list, lambda rows, row: rows.append(row))
    [{'epoch': 1}]
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tarmac.files.atomic import open_record, read_regular
from tarmac.files.fields import Fields
from tarmac.files.holders import LeaseWatch
from tarmac.files.hosts_locks import is_held
from tarmac.files.journal import parse_line
from tarmac.files.mounts import is_network, mounts_seen
from tarmac.files.parsing import parse_json

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

_T = TypeVar("_T")

# Of a file that is read for the first time, at a time.
_CHUNK_BYTES = 2**20


@dataclasses.dataclass
class _Whole:
    """What was read of a file that is replaced as a whole, and of which state of it."""

    stamp: tuple[int, int, int]
    value: object


@dataclasses.dataclass
class _Growing:
    """What the lines of a file that grows have come to, up to `offset`."""

    inode: int
    reader: object
    state: object
    offset: int = 0
    stamp: tuple[int, int, int] | None = None


class Readings:
    """What was read of files, kept for the next look; one look at one file costs a ``stat``.

    It is for readers of what other processes write. A file that is not there, that may not be read,
    that holds no JSON or only half a line is no error: nothing is known of it.

    Args:
        most: Files that are remembered; past that, those not asked for the longest are forgotten.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._whole: dict[Path, _Whole] = {}
        self._growing: dict[Path, _Growing] = {}
        self._on_network: dict[Path, bool] = {}
        # By device: what leads to a path takes a call for each of its parts, and runs are many.
        # Both are forgotten once anything was mounted.
        self._network_devices: dict[int, bool] = {}
        self._mounts_seen = mounts_seen()
        self._leases = LeaseWatch()

    def is_on_network(self, path: Path) -> bool:
        """Whether a file is where other hosts may write it too; see `is_network`."""
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
        """Whether the owner of a lock is alive, of another host as far as it is seen to be.

        See `tarmac.files.is_held`.
        """
        return is_held(path, self._leases, is_remote=self.is_on_network(path))

    def fields(self, path: Path) -> Fields:
        """Return the fields of the object that a file holds; none where it cannot be read.

        Args:
            path: A file that is written whole, as `write_json` does.
        """
        return self.value(path, _fields_in, Fields({}))

    def value(self, path: Path, read: Callable[[bytes], _T], missing: _T) -> _T:
        """Return what a file's content is read as, which is done once for each state of it.

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
        """Return what the lines of JSON of a file have come to.

        Only what was appended since the last time is read. Where the file was replaced or cut, all
        of it is. A last line without an end is left for later, and one that is damaged is left out.

        Args:
            path: Journal of JSON lines that a writer appends to.
            start: Makes what an empty file comes to.
            add: Changes that by a line's value. Another function than before begins anew.
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


def _stamp(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _fields_in(content: bytes) -> Fields:
    return Fields.of(parse_json(content))


def _read_on(path: Path, known: _Growing, add: Callable[[Any, Any], object]) -> None:
    with open_record(path) as file:
        file.seek(known.offset)
        # Of a line whose end is not read yet; joined once, as it may have very many.
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
    """Keep a value as the last one asked for, and forget the first where there are too many."""
    kept.pop(path, None)
    kept[path] = value
    if len(kept) > most:
        del kept[next(iter(kept))]

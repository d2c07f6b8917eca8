"""Journals: files of JSON lines that grow, and stay readable whatever ends their writer.

Example:
    >>> from tarmac.files import append_lines, read_lines
    >>> append_lines(tmp_path / "journal.jsonl", [{"event": "started"}])
    >>> read_lines(tmp_path / "journal.jsonl").values
    ({'event': 'started'},)
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any

from tarmac.files.atomic import read_errors, read_regular, storage_errors, sync_directory
from tarmac.files.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["DamagedLine", "JournalLines", "append_lines", "drop_torn_line", "read_lines"]

_CHUNK_BYTES = 2**16


@dataclasses.dataclass(frozen=True)
class DamagedLine:
    """A line of a journal that cannot be read.

    Attributes:
        path: The journal.
        number: The line's, from 1.
        reason: Why not.
    """

    path: Path
    number: int
    reason: str

    def __str__(self) -> str:
        """Return where it is, and what is wrong."""
        return f"{self.path}:{self.number}: the journal is damaged: {self.reason}"


@dataclasses.dataclass(frozen=True)
class JournalLines:
    """What a journal holds.

    Attributes:
        values: Its lines, in order.
        damaged: Lines that were left out.
    """

    values: tuple[Any, ...]
    damaged: tuple[DamagedLine, ...] = ()


def append_lines(path: Path, values: Iterable[Any], *, is_durable: bool = False) -> None:
    """Append values to a journal, all or none.

    What an earlier writer could not end, because it was killed or its disk was full, is taken away
    first: nothing is ever glued to half a line. One process may write at a time.

    Args:
        path: The file; made if it is not there.
        values: Each becomes a line of JSON.
        is_durable: Whether they are on the disk when this returns, rather than in the kernel's
            hands, which a killed process but not a power cut leaves whole.

    Raises:
        StorageError: They could not be written; the journal is as it was.
    """
    lines = "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in values)
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            size = _drop_torn(descriptor)
            try:
                _write_all(descriptor, lines.encode())
                if is_durable:
                    os.fsync(descriptor)
                if not size:
                    sync_directory(path.parent)
            except BaseException:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)


def read_lines(
    path: Path, problem_of: Callable[[Any], str | None] = lambda _: None
) -> JournalLines:
    """Read a journal. A last line that its writer could not end is left out, for it never was.

    Args:
        path: The file.
        problem_of: Says why a value is none that belongs there; None for those that do.

    Raises:
        StorageError: It cannot be read.
    """
    with read_errors(path):
        *lines, _ = read_regular(path).split(b"\n")
    values: list[Any] = []
    damaged: list[DamagedLine] = []
    for number, line in enumerate(lines, start=1):
        try:
            value = parse_json(line)
            problem = problem_of(value)
        except ValueError as error:
            problem = str(error)
        if problem is None:
            values.append(value)
        else:
            damaged.append(DamagedLine(path, number, problem))
    return JournalLines(tuple(values), tuple(damaged))


def drop_torn_line(path: Path) -> None:
    """Take away a last line that its writer could not end, where there is one.

    Raises:
        StorageError: It cannot be taken away.
    """
    with storage_errors(path):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            _drop_torn(descriptor)
        finally:
            os.close(descriptor)


def _drop_torn(descriptor: int) -> int:
    """Cut a journal behind its last whole line; return its size."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        start = max(0, end - (1 if end == size else _CHUNK_BYTES))
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
    return end


def _write_all(descriptor: int, content: bytes) -> None:
    # On a disk that fills the kernel takes a part, and says why only when asked to take the rest.
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]

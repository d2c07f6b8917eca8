"""Journals: growing files of JSON lines, which stay readable however their writer ends.

An object's line ends with ``"crc32"``, the checksum of all bytes before that field, so that a
flipped bit gives a damaged line instead of other values. Lines of 0.1 have no checksum and are not
checked.

Example:
    >>> from tarmac.files import append_lines, read_lines
    >>> append_lines(tmp_path / "journal.jsonl", [{"event": "started"}])
    >>> read_lines(tmp_path / "journal.jsonl").values
    ({'event': 'started'},)
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tarmac.files.atomic import read_errors, read_regular, storage_errors, sync_directory
from tarmac.files.parsing import parse_json

_CHUNK_BYTES = 2**16

# A number, so that versions without checksums read it as one more value.
_KEY = "crc32"
_FIELD = b',"%s":' % _KEY.encode()
_CHECKSUM = re.compile(re.escape(_FIELD) + rb"(\d+)\}")

# Maximum length of a line.
_MAX_LINE_BYTES = 2**28

# A last field whose name differs from ours by at most this number of bytes is a damaged checksum.
_MAX_WRONG_BYTES = 2


@dataclasses.dataclass(frozen=True)
class DamagedLine:
    """A line of a journal that cannot be read.

    Attributes:
        path: Journal that holds the line.
        number: Number of the line, from 1.
        reason: Description of the damage.
    """

    path: Path
    number: int
    reason: str

    def __str__(self) -> str:
        """Return the place of the line, and the damage."""
        return f"{self.path}:{self.number}: the journal is damaged: {self.reason}"


@dataclasses.dataclass(frozen=True)
class JournalLines:
    """The content of a journal.

    Attributes:
        values: Values of the journal's lines, in order.
        damaged: Damaged lines, which are not in `values`.
    """

    values: tuple[Any, ...]
    damaged: tuple[DamagedLine, ...] = ()


def append_lines(path: Path, values: Iterable[Any], *, is_durable: bool = False) -> None:
    """Append values to a journal, all or none.

    An incomplete last line, of a writer that was killed or whose disk was full, is removed first,
    so that nothing is appended to half a line. Only one process may write at a time.

    Args:
        path: Journal to append to; created if missing.
        values: Values to append, each as a line of JSON.
        is_durable: Whether the values are on the disk on return. Default False: in the kernel,
            which survives a kill of the process but no power cut.

    Raises:
        StorageError: The values could not be written; the journal is unchanged.
    """
    lines = journal_text(values)
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
                # A device cannot be truncated; only the write error matters.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)


def journal_text(values: Iterable[Any]) -> str:
    """Return the text of a journal with these values, to write it anew."""
    return "".join(_line(value) + "\n" for value in values)


def parse_line(line: bytes) -> Any:
    """Return the value of a journal's line.

    Args:
        line: Line of the journal, without its newline.

    Raises:
        ValueError: The line is no JSON, or does not match its checksum.
    """
    start = line.rfind(b",")
    if checksum := _CHECKSUM.fullmatch(line, max(start, 0)):
        content = line[:start]
        if zlib.crc32(content) != int(checksum[1]):
            raise ValueError("its checksum does not match its content")
        return parse_json(content + b"}")
    value = parse_json(line)
    name = line[start : start + len(_FIELD)]
    num_wrong = sum(ours != theirs for ours, theirs in zip(_FIELD, name, strict=False))
    if len(name) == len(_FIELD) and num_wrong <= _MAX_WRONG_BYTES:
        raise ValueError("its checksum is damaged")
    if isinstance(value, dict):
        # An older version rewrote the file with other spaces, and kept this field as a value.
        value.pop(_KEY, None)
    return value


def read_lines(
    path: Path, problem_of: Callable[[Any], str | None] = lambda _: None
) -> JournalLines:
    """Read a journal, without an incomplete last line.

    Args:
        path: Journal to read, in JSON lines.
        problem_of: Returns why a value does not belong in the journal; None if it does.

    Raises:
        StorageError: The journal cannot be read.
    """
    with read_errors(path):
        *lines, _ = read_regular(path).split(b"\n")
    values: list[Any] = []
    damaged: list[DamagedLine] = []
    for number, line in enumerate(lines, start=1):
        try:
            value = parse_line(line)
            problem = problem_of(value)
        except ValueError as error:
            problem = str(error)
        if problem is None:
            values.append(value)
        else:
            damaged.append(DamagedLine(path, number, problem))
    return JournalLines(tuple(values), tuple(damaged))


def drop_torn_line(path: Path) -> None:
    """Remove an incomplete last line, if there is one.

    Raises:
        StorageError: The line cannot be removed.
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


def _line(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    if not isinstance(value, dict) or not value:
        return text
    content = text[:-1]
    return f'{content},"{_KEY}":{zlib.crc32(content.encode())}}}'


def _drop_torn(descriptor: int) -> int:
    """Truncate a journal after its last complete line; return its size."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        if size - end > _MAX_LINE_BYTES:
            # A sparse file may end in a hole that is too long to search.
            raise OSError(errno.EFBIG, "it ends with no line")
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
    # On a filling disk, the kernel takes a part, and reports the reason only at the next write.
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]

"""Journals: files of JSON lines that grow, and stay readable whatever ends their writer.

An object's line ends with ``"crc32"``, the checksum of all bytes before that field, so that a
flipped bit makes a damaged line and no other values. Lines of 0.1 have none, and are not checked.

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
from typing import TYPE_CHECKING, Any

from tarmac.files.atomic import read_errors, read_regular, storage_errors, sync_directory
from tarmac.files.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_CHUNK_BYTES = 2**16

# A number, so that versions that know no checksum take it for one more value.
_KEY = "crc32"
_FIELD = b',"%s":' % _KEY.encode()
_CHECKSUM = re.compile(re.escape(_FIELD) + rb"(\d+)\}")

# No line is longer.
_MAX_LINE_BYTES = 2**28

# A line whose last field's name differs from ours by so many bytes was damaged there.
_MAX_WRONG_BYTES = 2


@dataclasses.dataclass(frozen=True)
class DamagedLine:
    """A line of a journal that cannot be read.

    Attributes:
        path: Journal that holds the line.
        number: Number of the line, from 1.
        reason: What is wrong with the line, in words.
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
        path: Journal to append to; created if missing.
        values: Each becomes a line of JSON.
        is_durable: Whether they are on the disk when this returns, rather than in the kernel's
            hands, which a killed process but not a power cut leaves whole.

    Raises:
        StorageError: They could not be written; the journal is as it was.
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
                # A device cannot be cut; why it took no more is what counts.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)


def journal_text(values: Iterable[Any]) -> str:
    """Return the lines of a journal that hold some values, for one that is written anew."""
    return "".join(_line(value) + "\n" for value in values)


def parse_line(line: bytes) -> Any:
    """Return the value of a journal's line.

    Args:
        line: Line of the journal, without its newline.

    Raises:
        ValueError: It is no JSON, or its bytes are not those that were written.
    """
    start = line.rfind(b",")
    if checksum := _CHECKSUM.fullmatch(line, max(start, 0)):
        content = line[:start]
        if zlib.crc32(content) != int(checksum[1]):
            raise ValueError("its checksum is another than its content has")
        return parse_json(content + b"}")
    value = parse_json(line)
    name = line[start : start + len(_FIELD)]
    num_wrong = sum(ours != theirs for ours, theirs in zip(_FIELD, name, strict=False))
    if len(name) == len(_FIELD) and num_wrong <= _MAX_WRONG_BYTES:
        raise ValueError("its checksum is damaged")
    if isinstance(value, dict):
        # An older version has written the file anew: with other spaces, and values that it read.
        value.pop(_KEY, None)
    return value


def read_lines(
    path: Path, problem_of: Callable[[Any], str | None] = lambda _: None
) -> JournalLines:
    """Read a journal. A last line that its writer could not end is left out, for it never was.

    Args:
        path: Journal to read, in JSON lines.
        problem_of: Returns why a value does not belong in the journal; None if it does.

    Raises:
        StorageError: It cannot be read.
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


def _line(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"))
    if not isinstance(value, dict) or not value:
        return text
    content = text[:-1]
    return f'{content},"{_KEY}":{zlib.crc32(content.encode())}}}'


def _drop_torn(descriptor: int) -> int:
    """Cut a journal behind its last whole line; return its size."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        if size - end > _MAX_LINE_BYTES:
            # It may be a hole, which is longer than anybody would look through.
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
    # On a disk that fills the kernel takes a part, and says why only when asked to take the rest.
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]

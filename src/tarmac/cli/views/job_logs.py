"""Logs of tasks, printed while the tasks write them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tarmac.files import masked_end, open_regular

# A progress bar may write for hours without ending a line.
_LONGEST_LINE_BYTES = 2**20

_TAIL_BYTES = 4096
_ERROR = "error: "

# Bytes to read at once from a file's end.
_BLOCK_BYTES = 2**16


class Tail:
    """A reader of a growing file that may not exist yet. It opens the file only to read.

    Args:
        path: Path of the log file, which may not exist yet.
        emit: Receives each whole line, without its end; a very long line in parts.
        skip_bytes: Bytes at the start of the file that are not shown. Default 0.
        within: Directory that the file must lie in after all links are resolved. Default: any.
    """

    def __init__(
        self,
        path: Path,
        emit: Callable[[str], None],
        *,
        skip_bytes: int = 0,
        within: Path | None = None,
    ) -> None:
        self._path = path
        self._emit = emit
        self._done_bytes = skip_bytes
        self._within = within
        self._rest = b""

    def read(self) -> None:
        """Emit the lines that were written since the last call."""
        for chunk in self._chunks():
            self._done_bytes += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._say(line)
            if len(self._rest) >= _LONGEST_LINE_BYTES:
                self._say(self._rest)
                self._rest = b""

    def close(self) -> None:
        """Emit the rest of the file, including a last line without an end."""
        self.read()
        if self._rest:
            self._say(self._rest)
            self._rest = b""

    def _chunks(self) -> Iterator[bytes]:
        # The file does not exist yet, or a task has put a pipe or a folder in its place.
        with contextlib.suppress(OSError):
            if self._path.stat().st_size > self._done_bytes:
                with open_regular(self._path, within=self._within) as file:
                    file.seek(self._done_bytes)
                    while chunk := file.read(_LONGEST_LINE_BYTES):
                        yield chunk

    def _say(self, line: bytes) -> None:
        self._emit(line.decode(errors="replace"))


def tail_offset(path: Path, count: int) -> int:
    """Return the byte offset of a file's last lines; the file is read from its end.

    Args:
        path: Path of the file. The offset is 0 if no regular file is there.
        count: Number of lines, including one without an end; 0 for the file's end.
    """
    with contextlib.suppress(OSError), open_regular(path) as file:
        end = offset = file.seek(0, os.SEEK_END)
        left = count
        while offset and left >= 0:
            block_start = max(0, offset - _BLOCK_BYTES)
            file.seek(block_start)
            block = file.read(offset - block_start)
            # The last line's own end separates no two lines.
            cut = len(block) - 1 if offset == end and block.endswith(b"\n") else len(block)
            while left and (line_end := block.rfind(b"\n", 0, cut)) >= 0:
                cut, left = line_end, left - 1
            if not left:
                return block_start + cut + 1 if count else end
            offset = block_start
    return 0


def failure_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, with the first line of its error message if it has one.

    A message may have more lines than that, such as a list of all valid names. Its first line and
    "..." then replace the first two lines.
    """
    lines = last_lines(path, _TAIL_BYTES)
    head, tail = lines[:-count], lines[-count:]
    errors = [line for line in head if line.startswith(_ERROR)]
    if errors and not any(line.startswith(_ERROR) for line in tail):
        return [errors[-1], "...", *tail[2:]]
    return tail


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log's last 4 KiB, without secrets; none without a log."""
    try:
        text, _ = masked_end(path, _TAIL_BYTES)
    except OSError:
        return []
    return text.splitlines()[-count:]

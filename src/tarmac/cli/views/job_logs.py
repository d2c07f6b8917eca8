"""Prints what tasks print while they print it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from tarmac.files import masked_end, open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# A progress bar may write for hours without ending a line.
_LONGEST_LINE_BYTES = 2**20

_TAIL_BYTES = 4096
_ERROR = "error: "

# Of what is read at once from a file's end.
_BLOCK_BYTES = 2**16


class Tail:
    """Follows a file that grows, and may not be there yet. It is open only while it is read.

    Args:
        path: Path of the log file, which may not exist yet.
        emit: Gets every whole line, without its end; a very long one in parts.
        skip_bytes: What it does not show: what was there before.
        within: Directory that the file must lie in, wherever links lead. Default: any.
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
        """Emit the lines that have come since."""
        for chunk in self._chunks():
            self._done_bytes += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._say(line)
            if len(self._rest) >= _LONGEST_LINE_BYTES:
                self._say(self._rest)
                self._rest = b""

    def close(self) -> None:
        """Emit what is left, a last line without an end too."""
        self.read()
        if self._rest:
            self._say(self._rest)
            self._rest = b""

    def _chunks(self) -> Iterator[bytes]:
        # It is not there yet, or a task has put a pipe or a folder in its place.
        with contextlib.suppress(OSError):
            if self._path.stat().st_size > self._done_bytes:
                with open_regular(self._path, within=self._within) as file:
                    file.seek(self._done_bytes)
                    while chunk := file.read(_LONGEST_LINE_BYTES):
                        yield chunk

    def _say(self, line: bytes) -> None:
        self._emit(line.decode(errors="replace"))


def tail_offset(path: Path, count: int) -> int:
    """Return where the last lines of a file begin, in bytes; it is read from its end.

    Args:
        path: The file; 0 where it is not there, or no file.
        count: Number of lines, one without an end included; 0 for the file's end.
    """
    with contextlib.suppress(OSError), open_regular(path) as file:
        end = offset = file.seek(0, os.SEEK_END)
        left = count
        while offset and left >= 0:
            block_start = max(0, offset - _BLOCK_BYTES)
            file.seek(block_start)
            block = file.read(offset - block_start)
            # The last line's own end is none between two lines.
            cut = len(block) - 1 if offset == end and block.endswith(b"\n") else len(block)
            while left and (line_end := block.rfind(b"\n", 0, cut)) >= 0:
                cut, left = line_end, left - 1
            if not left:
                return block_start + cut + 1 if count else end
            offset = block_start
    return 0


def failure_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, as `last_lines` does, that tell of an error if any does.

    Where a message has more lines than that, as one with a list of all that is valid, its first
    one stands before them.
    """
    lines = last_lines(path, _TAIL_BYTES)
    head, tail = lines[:-count], lines[-count:]
    errors = [line for line in head if line.startswith(_ERROR)]
    if errors and not any(line.startswith(_ERROR) for line in tail):
        return [errors[-1], "...", *tail[2:]]
    return tail


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log that may not be there, of its last 4 KiB, without secrets."""
    try:
        text, _ = masked_end(path, _TAIL_BYTES)
    except OSError:
        return []
    return text.splitlines()[-count:]

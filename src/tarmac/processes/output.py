"""The output of a process, read to its end and kept in part."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import IO

_CHUNK_BYTES = 65536
_MAX_LINE = 300


def last_line(text: str) -> str:
    """Return the last line that is not blank, cut to 300 characters; empty where there is none.

    For a traceback, that line is the error.
    """
    lines = text.strip().splitlines()
    return lines[-1].strip()[:_MAX_LINE] if lines else ""


class OutputTail:
    """A stream that a thread reads to its end, so that its writer never blocks; keeps the end.

    Args:
        stream: Output stream of a process, such as its standard output. None counts as empty.
        keep_bytes: Minimum number of bytes to keep from the end.

    Attributes:
        num_bytes: Bytes read so far, kept or not.
    """

    def __init__(self, stream: IO[bytes] | None, keep_bytes: int) -> None:
        self._stream = stream
        self._keep_bytes = keep_bytes
        self._kept: deque[bytes] = deque()
        self.num_bytes = 0
        self._thread = threading.Thread(target=self._read, name="tarmac-output", daemon=True)
        self._thread.start()

    def text(self, timeout_s: float) -> str:
        """Return the kept end of the output, and close the stream if it has ended.

        Args:
            timeout_s: Seconds to wait for the stream's end.
        """
        self._thread.join(timeout=timeout_s)
        if self._stream is not None and not self._thread.is_alive():
            self._stream.close()
        return b"".join(self._kept).decode(errors="replace")

    def _read(self) -> None:
        if self._stream is None:
            return
        size = 0
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.read(self._stream.fileno(), _CHUNK_BYTES):
                self._kept.append(chunk)
                self.num_bytes += len(chunk)
                size += len(chunk)
                while size - len(self._kept[0]) >= self._keep_bytes:
                    size -= len(self._kept.popleft())

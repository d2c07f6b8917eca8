"""Reading of untrusted files that an algorithm has written."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from tarmac.hkube.protocol.messages import ProtocolError


def read_made(
    directory: Path, parts: Sequence[str], *, max_bytes: int, is_removed: bool = False
) -> bytes:
    """Read a file below a directory, without following links or blocking on pipes.

    Args:
        directory: Trusted directory that the file is below.
        parts: Names that lead from the directory to the file, such as ``("JOB", "TASK")``.
        max_bytes: Largest file in bytes. A larger file is refused.
        is_removed: Whether to remove the file after reading. Default: False.

    Raises:
        OSError: The file cannot be read.
        ProtocolError: The path is no regular file, or the file is too large.
    """
    with _folder(directory, parts[:-1]) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(parts[-1], flags, dir_fd=folder), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ProtocolError("it is not a file")
            if about.st_size > max_bytes:
                raise ProtocolError(f"it has {about.st_size} bytes, more than {max_bytes}")
            content = file.read(max_bytes)
        if is_removed:
            os.unlink(parts[-1], dir_fd=folder)
    return content


@contextlib.contextmanager
def _folder(directory: Path, parts: Sequence[str]) -> Iterator[int]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(directory, flags)
    try:
        for part in parts:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)

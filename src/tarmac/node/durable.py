"""Exclusive creation and atomic replacement of files, on network file systems and full disks."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)


def create_file(path: Path, content: bytes) -> bool:
    """Create a file exclusively; return False if it already exists.

    The file need not survive a power loss, because its creator does not survive either.

    Raises:
        OSError: The file cannot be written; it is removed then.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return True


def replace_file(path: Path, content: bytes, *, is_lasting: bool = True) -> None:
    """Replace a file atomically: a reader finds the old content or the new content.

    On a full disk the file is overwritten in place, which needs no more room for a small file. A
    reader may then find partial content.

    Args:
        path: File to write; it may not exist yet.
        content: Complete new content of the file.
        is_lasting: Whether to return only when the content survives a power loss. Default True.

    Raises:
        OSError: The file cannot be written.
    """
    # A random name, because threads, hosts and containers that write here may share a pid.
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            if is_lasting:
                os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if error.errno not in _FULL or not path.exists():
            raise
        _overwrite(path, content)
    if is_lasting:
        _keep_name(path)


def _overwrite(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _keep_name(path: Path) -> None:
    # File systems that cannot sync a directory do not need it.
    with contextlib.suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

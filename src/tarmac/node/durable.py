"""Files that are there once and whole, also on network file systems and on a full disk."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)


def create_file(path: Path, content: bytes) -> bool:
    """Create a file, of several that try the first alone; return whether this one was it.

    It need not outlive a loss of power: who created it does not either.

    Raises:
        OSError: It cannot be written; it is not there then.
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
    """Write a file whole: whoever reads it finds the old content or the new one.

    On a full disk it is written over where it is, which needs no more room for the little that it
    holds; a reader may find a part of it then.

    Args:
        path: File to write; it may not exist yet.
        content: Complete new content of the file.
        is_lasting: Whether to return only once it outlives a loss of power.

    Raises:
        OSError: It cannot be written.
    """
    # Threads, hosts and containers write here: the number of a process tells none of them apart.
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
    # Some file systems cannot do this for a directory, and then need it not.
    with contextlib.suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

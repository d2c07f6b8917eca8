"""Locks that say whether their owner is alive: the kernel gives them back when a process ends.

A number of a process comes again, and a note of one outlives it; a lock does neither, and on a
shared file system it also speaks for processes of other machines.

Example:
    >>> from tarmac.files import OwnerLock, is_owned
    >>> lock = OwnerLock(tmp_path / ".lock")
    >>> lock.acquire(), is_owned(tmp_path / ".lock")
    (True, True)
    >>> lock.release()
    >>> is_owned(tmp_path / ".lock")
    False
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from typing import TYPE_CHECKING

from tarmac.files.atomic import StorageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["OwnerLock", "is_owned", "lock_descriptor", "remove_unowned", "unlock_descriptor"]

# How long to try for a lock before asking whether it is owned or only looked at.
_LOOK_S = 0.05


class OwnerLock:
    """A lock that one process at a time owns, until it gives it back or ends.

    Args:
        path: Of the lock's file, which is made where it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Whoever only asks whether a run is worked on, as `tarmac top` does, need not wait for it.
        from filelock import FileLock  # noqa: PLC0415

        self._lock = FileLock(path, is_singleton=False)

    @property
    def is_lost(self) -> bool:
        """Whether another one has taken it over: never, while this process lives."""
        return False

    def acquire(self) -> bool:
        """Become the owner; False where another one is alive. Does not wait for that one's end.

        Raises:
            FileNotFoundError: The file's directory is not there.
            StorageError: The file cannot be made.
        """
        from filelock import Timeout  # noqa: PLC0415 - as above

        while not self._lock.is_locked:
            # A directory that was removed stays away: filelock would make it anew.
            if not self._path.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path.parent)
            try:
                self._lock.acquire(timeout=_LOOK_S, poll_interval=_LOOK_S / 50)
            except Timeout:
                # Who only looks has the lock for a moment, and shares it.
                if is_owned(self._path):
                    return False
            except OSError as error:
                raise StorageError(
                    f"cannot lock {self._path}: {os.strerror(error.errno or 0)}"
                ) from error
        return True

    def release(self) -> None:
        """Give it back; nothing happens where it is not owned."""
        self._lock.release()


def is_owned(path: Path) -> bool:
    """Whether a lock's owner is alive, without getting into the way of one who will be.

    Args:
        path: Of the lock's file. Where there is none it has no owner. One that cannot be asked
            about, as on a file system that knows no locks, counts as owned.
    """
    return _look(path, removes=False)


def remove_unowned(path: Path) -> bool:
    """Remove a lock's file where its owner is not alive.

    Whoever makes such a file and then owns it must look whether it is still there: it may have been
    removed between the two. It is not removed where that is not allowed.

    Returns:
        Whether the owner is not alive; see `is_owned`.
    """
    return not _look(path, removes=True)


def _look(path: Path, *, removes: bool) -> bool:
    try:
        with path.open("rb") as file:
            # Shared, so that of several that look at once none takes another's for the owner's.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if removes:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def lock_descriptor(descriptor: int) -> bool:
    """Own the file that is open as a descriptor; False where another one does.

    For files that may not be opened by name a second time; see `OwnerLock` for all others.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock_descriptor(descriptor: int) -> None:
    """Give back what `lock_descriptor` took."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)

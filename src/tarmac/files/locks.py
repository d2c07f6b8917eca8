"""Locks that show whether their owner is alive: the kernel releases them when a process ends.

A process id is reused, and a note of a process outlives it; a lock does neither. On a shared file
system, a lock also covers processes of other machines.

A process that can open a file can lock it. So only users who may write a lock's directory can open
the lock's file. Files of older versions, which all users may read, are replaced at the next lock.

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
import stat
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from tarmac.errors import quoted
from tarmac.files.atomic import StorageError

# Pause between two tries, while other processes check the lock.
_PAUSE_S = 0.001

# Follow no link and wait for no pipe: another user may have made either.
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_KERNEL_LOCKS = Path("/proc/locks")


class OwnerLock:
    """A lock that one process at a time owns, until it releases the lock or ends.

    Args:
        path: File of the lock; created if missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        _locks.add(self)

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken the lock over: never, while this process is alive."""
        return False

    def acquire(self) -> bool:
        """Take the lock; return False at once while another live process owns it.

        Raises:
            FileNotFoundError: The file's directory is missing.
            StorageError: The file cannot be created, or is no lock file.
        """
        return self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def wait(self) -> None:
        """Take the lock, waiting without a limit; for locks that are held for moments.

        Raises:
            FileNotFoundError: The file's directory is missing.
            StorageError: The file cannot be created, or is no lock file.
        """
        self._take(fcntl.LOCK_EX)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock during the block; see `wait`."""
        self.wait()
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Closing alone would leave the lock to a child forked in the meantime.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def forget(self) -> None:
        """Leave the lock to the process that this one was forked from."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _take(self, operation: int) -> bool:
        while self._descriptor is None:
            try:
                descriptor = _open(self._path)
                try:
                    if _try(descriptor, operation):
                        if _is_at(self._path, descriptor):
                            self._descriptor, descriptor = descriptor, -1
                    # A process that only checks the lock holds it for a moment, shared.
                    elif not _try(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
                        return False
                    else:
                        # Processes that kept the shared lock during the pause would exclude each
                        # other.
                        fcntl.flock(descriptor, fcntl.LOCK_UN)
                        time.sleep(_PAUSE_S)
                finally:
                    if descriptor >= 0:
                        os.close(descriptor)
            except FileNotFoundError:
                # Do not create a removed directory again.
                raise
            except OSError as error:
                raise StorageError(
                    f"cannot lock {self._path}: {error.strerror}", hint=_hint(self._path)
                ) from error
        return True


def is_owned(path: Path) -> bool:
    """Whether a lock's owner is alive, without blocking a future owner.

    Args:
        path: File of the lock. A missing file has no owner. A file that cannot be checked counts as
            owned, such as on a file system without locks.
    """
    return _look(path, removes=False)


def remove_unowned(path: Path) -> bool:
    """Delete a lock's file if its owner is not alive.

    After creating and locking such a file, a process must check that the file still exists: it may
    have been deleted in between. The file stays where deletion is not allowed.

    Returns:
        Whether the owner is not alive; see `is_owned`.
    """
    return not _look(path, removes=True)


def _look(path: Path, *, removes: bool) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except PermissionError:
        return _is_listed(path)
    except OSError as error:
        # A link is no lock either.
        return error.errno not in (errno.ENOENT, errno.ELOOP)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return False
        # Shared, so that processes that check at the same time do not take each other for the
        # owner.
        if not _try(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
            return not _is_held_by_strangers(status)
        if removes:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_descriptor(descriptor: int) -> bool:
    """Lock an open file; return False while another process has locked it.

    For files that must not be opened by name again; see `OwnerLock` for all others.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock_descriptor(descriptor: int) -> None:
    """Release a lock of `lock_descriptor`."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def _open(path: Path) -> int:
    """Open a lock's file, closed to other users; create it if it is missing.

    Raises:
        OSError: The file cannot be opened, or is no lock file.
    """
    folder = path.parent.stat()
    mode = _mode_in(folder)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, mode)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.ENOTSUP, "it is not a regular file", str(path))
            # Where all users may create files, another user's file could block everyone.
            if mode == 0o600 and status.st_uid not in (0, os.geteuid(), folder.st_uid):
                raise OSError(errno.EPERM, "another user has made it", str(path))
            is_open = stat.S_IMODE(status.st_mode) & ~mode and status.st_uid == os.geteuid()
            # The file itself may hold the lease of an older version.
            if status.st_size or not (is_open and _replace(path, descriptor, mode)):
                kept, descriptor = descriptor, -1
                return kept
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _mode_in(folder: os.stat_result) -> int:
    """Return the mode of a lock's file: open only to users who could delete it anyway."""
    if folder.st_mode & stat.S_ISVTX:
        return 0o600
    others = (stat.S_IWGRP, 0o060), (stat.S_IWOTH, 0o006)
    return 0o600 | sum(mode for writes, mode in others if folder.st_mode & writes)


def _replace(path: Path, descriptor: int, mode: int) -> bool:
    """Replace a lock's file that other users can open by a private file.

    Only this process owns the old file meanwhile, or only other users do.

    Returns:
        Whether the path has another file now; False if its owner must be respected.
    """
    old = os.fstat(descriptor)
    if not lock_descriptor(descriptor) and not _is_held_by_strangers(old):
        return False
    # Only one process can create a file of this name, which disappears with the replacement.
    fresh = path.with_name(f".{path.name}.{old.st_ino}")
    try:
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, mode))
    except OSError:
        return not _is_at(path, descriptor)
    if _is_at(path, descriptor):
        fresh.replace(path)
    else:
        fresh.unlink()
    return True


def _try(descriptor: int, operation: int) -> bool:
    """Lock a file; return False while other processes have locked it."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file still has its name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    return False


def _is_held_by_strangers(status: os.stat_result) -> bool:
    """Whether only users other than its owner, root and this user hold a lock."""
    if not status.st_mode & 0o077:
        return False
    own = {0, os.geteuid(), status.st_uid}
    holders = _holders(status.st_ino)
    try:
        return bool(holders) and all(
            Path(f"/proc/{pid}").stat().st_uid not in own for pid in holders
        )
    except OSError:
        return False


def _is_listed(path: Path) -> bool:
    """Whether the kernel lists a lock on a file that this user may not open."""
    try:
        return bool(_holders(path.stat().st_ino))
    except OSError:
        return True


def _holders(inode: int) -> list[str]:
    """Return the visible processes that hold the kernel's lock on a file.

    Raises:
        OSError: The kernel's list cannot be read.
    """
    holders = []
    for line in _KERNEL_LOCKS.read_text().splitlines():
        # proc_locks(5): number, "FLOCK", "ADVISORY", "WRITE", process, device:inode, start, end.
        fields = line.split()
        if len(fields) == 8 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            holders.append(fields[4])
    return holders


def _hint(path: Path) -> str | None:
    """Return a hint for a path that is no usable lock file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
        return None
    what = "no lock's file" if status.st_uid == os.geteuid() else "not this user's"
    if not os.access(path.parent, os.W_OK):
        where = quoted(path.parent)
        return f"It is {what}, in a directory that this user may not write: ls -ld {where}"
    remove = f"rm {'-r ' if stat.S_ISDIR(status.st_mode) else ''}{quoted(path)}"
    return f"It is {what}. If no process works there: {remove}"


def _forget_all() -> None:
    for lock in [*_locks]:
        lock.forget()


_locks: weakref.WeakSet[OwnerLock] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_all)

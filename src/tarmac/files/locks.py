"""Locks that say whether their owner is alive: the kernel gives them back when a process ends.

A number of a process comes again, and a note of one outlives it; a lock does neither, and on a
shared file system it also speaks for processes of other machines.

Whoever can open a file can lock it. So a lock's file can be opened only by those who may write its
directory. Files of older versions, which everybody may read, are replaced when they are next
locked.

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
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import quoted
from tarmac.files.atomic import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Between two tries, while others look at the lock.
_PAUSE_S = 0.001

# A link is not followed, and a pipe not waited for: another user may have made either.
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_KERNEL_LOCKS = Path("/proc/locks")


class OwnerLock:
    """A lock that one process at a time owns, until it gives it back or ends.

    Args:
        path: File of the lock; created if missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        _locks.add(self)

    @property
    def is_lost(self) -> bool:
        """Whether another one has taken it over: never, while this process lives."""
        return False

    def acquire(self) -> bool:
        """Become the owner; False where another one is alive. Does not wait for that one's end.

        Raises:
            FileNotFoundError: The file's directory is not there.
            StorageError: The file cannot be made, or something else is in its place.
        """
        return self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def wait(self) -> None:
        """Become the owner, however long another one is it before; for locks held for moments.

        Raises:
            FileNotFoundError: The file's directory is not there.
            StorageError: The file cannot be made, or something else is in its place.
        """
        self._take(fcntl.LOCK_EX)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Own it while the block lasts; see `wait`."""
        self.wait()
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        """Give it back; nothing happens where it is not owned."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # Closing alone would leave it to a child that was forked meanwhile.
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
                    # Who only looks has the lock for a moment, and shares it.
                    elif not _try(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB):
                        return False
                    else:
                        # Several that kept it through the pause would keep each other out.
                        fcntl.flock(descriptor, fcntl.LOCK_UN)
                        time.sleep(_PAUSE_S)
                finally:
                    if descriptor >= 0:
                        os.close(descriptor)
            except FileNotFoundError:
                # A directory that was removed stays away.
                raise
            except OSError as error:
                raise StorageError(
                    f"cannot lock {self._path}: {error.strerror}", hint=_hint(self._path)
                ) from error
        return True


def is_owned(path: Path) -> bool:
    """Whether a lock's owner is alive, without getting into the way of one who will be.

    Args:
        path: File of the lock. A missing file has no owner. A file that cannot be checked counts as
            owned, such as on a file system without locks.
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
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except PermissionError:
        return _is_listed(path)
    except OSError as error:
        # Nor is a link anybody's lock.
        return error.errno not in (errno.ENOENT, errno.ELOOP)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return False
        # Shared, so that of several that look at once none takes another's for the owner's.
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


def _open(path: Path) -> int:
    """Open a lock's file, which strangers cannot; make it where it is not there.

    Raises:
        OSError: It cannot be opened, or something else is in its place.
    """
    folder = path.parent.stat()
    mode = _mode_in(folder)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, mode)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.ENOTSUP, "it is no regular file", str(path))
            # Where everybody may make files, one of another user's could keep all others out.
            if mode == 0o600 and status.st_uid not in (0, os.geteuid(), folder.st_uid):
                raise OSError(errno.EPERM, "another user has made it", str(path))
            is_open = stat.S_IMODE(status.st_mode) & ~mode and status.st_uid == os.geteuid()
            # An older version's lease may lie in the file itself.
            if status.st_size or not (is_open and _replace(path, descriptor, mode)):
                kept, descriptor = descriptor, -1
                return kept
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def _mode_in(folder: os.stat_result) -> int:
    """Return the mode of a lock's file: for those who could take it away anyway."""
    if folder.st_mode & stat.S_ISVTX:
        return 0o600
    others = (stat.S_IWGRP, 0o060), (stat.S_IWOTH, 0o006)
    return 0o600 | sum(mode for writes, mode in others if folder.st_mode & writes)


def _replace(path: Path, descriptor: int, mode: int) -> bool:
    """Put a private file in the place of a lock's file that strangers can open.

    Nobody owns the old one meanwhile but this process, or strangers alone.

    Returns:
        Whether the path has another file now; False where its owner has to be respected.
    """
    old = os.fstat(descriptor)
    if not lock_descriptor(descriptor) and not _is_held_by_strangers(old):
        return False
    # One process at a time can make a file of this name, which is gone once it has replaced it.
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
    """Lock a file; False where others have locked it."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether a file that is open still has its name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    return False


def _is_held_by_strangers(status: os.stat_result) -> bool:
    """Whether only processes of others than its owner, root and this user have a lock."""
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
    """Return the processes that have the kernel's lock on a file, as far as they are seen here.

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
    """Say what to do where something else is in a lock's place."""
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

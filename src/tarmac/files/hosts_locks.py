"""Locks between all hosts: a lease, and beside it the kernel's lock where the disk is local.

One host may have a directory on its own disk that another one sees over the network. So `open_lock`
always writes a lease, whatever the file system, and takes the kernel's lock besides where the file
system is local. The kernel's lock decides only between two processes that both see a local one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING, Protocol

from tarmac.files.atomic import StorageError, storage_errors
from tarmac.files.holders import BEAT_S, Holder, LeaseWatch, Sign, read_lease
from tarmac.files.lease import LOOK_INTERVAL_S, Lease
from tarmac.files.locks import OwnerLock, is_owned
from tarmac.files.mounts import is_network

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Lock(Protocol):
    """What one process at a time owns: an `OwnerLock`, or a `Lease`."""

    @property
    def is_lost(self) -> bool:
        """Whether another one has taken it over from a process that stood still for too long."""
        ...

    def acquire(self) -> bool:
        """Become the owner; False where another one is alive."""
        ...

    def release(self) -> None:
        """Give it back; nothing happens where it is not owned."""
        ...


def open_lock(path: Path) -> Lock:
    """Return the lock that holds between all hosts, however each of them mounts the directory.

    Args:
        path: File of the kernel's lock, which is made where the file system is local. The lease
            lies beside it; see `lease_file`.
    """
    return _HostsLock(path)


@contextlib.contextmanager
def taking_turns(path: Path) -> Iterator[None]:
    """Be the only process in the block, however long another one is in it before.

    It holds between all hosts, however each of them mounts the directory.

    Args:
        path: File of the kernel's lock. The lease lies beside it; see `lease_file`.

    Raises:
        FileNotFoundError: The file's directory is not there.
        StorageError: The file cannot be made, or something else is in its place.
    """
    if is_network(path):
        with Lease(lease_file(path)).held():
            yield
        return
    with OwnerLock(path).held():
        lease = Lease(lease_file(path), is_kernel_locked=True)
        with contextlib.suppress(StorageError):
            lease.wait()
        try:
            yield
        finally:
            lease.release()


def is_held(path: Path, watch: LeaseWatch | None = None, *, is_remote: bool | None = None) -> bool:
    """Whether the owner of a lock that `open_lock` has opened is alive; never waits.

    Args:
        path: File of the kernel's lock.
        watch: Watch that remembers heartbeats between calls. Default: none, so an owner on another
            host counts as alive.
        is_remote: Whether this host sees the file over the network. Default: look it up.
    """
    if is_remote is None:
        is_remote = is_network(path)
    if not is_remote and is_owned(path):
        return True
    # Of another user's lock, whose file this one cannot open, the lease alone tells.
    is_private = os.access(path, os.F_OK) and not os.access(path, os.R_OK)
    try:
        holder = read_holder(path)
    except OSError:
        # What is damaged keeps nobody from taking the kernel's lock, which is free.
        return is_remote or is_private
    if holder is None:
        return False
    if holder.is_kernel_locked and not is_remote and not is_private:
        return False
    return (watch or LeaseWatch()).sign_of(path, holder) != "dead"


def lease_file(path: Path) -> Path:
    """Return the file of the lease that belongs to a lock's file."""
    return path.with_name(f"{path.name}.lease")


def read_holder(path: Path) -> Holder | None:
    """Return the holder in the lease of a lock, alive or not; None where it has no lease.

    Args:
        path: File of the kernel's lock. Older versions kept the lease itself there on network
            file systems; an empty file is no lease.

    Raises:
        OSError: It cannot be read.
    """
    return read_lease(lease_file(path)) or _read_old(path)


class _HostsLock:
    """A lease, and where the file system is local the kernel's lock besides; see `open_lock`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kernel: OwnerLock | None = None
        self._lease: Lease | None = None

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken it over; see `Lock`."""
        return self._lease is not None and self._lease.is_lost

    def acquire(self) -> bool:
        """Become the owner; False where another process is alive.

        Raises:
            FileNotFoundError: The file's directory is not there.
            StorageError: The file cannot be made.
        """
        is_local = not is_network(self._path)
        if is_local:
            self._kernel = self._kernel or OwnerLock(self._path)
            if not self._kernel.acquire():
                return False
        if self._lease is None:
            self._lease = Lease(lease_file(self._path), beat_s=BEAT_S, is_kernel_locked=is_local)
        try:
            is_mine = self._outlive_old() and self._lease.acquire()
        except StorageError:
            # A full disk, or one without hard links: other hosts can do no more there.
            if not is_local:
                raise
            is_mine = True
        if not is_mine:
            self.release()
        return is_mine

    def release(self) -> None:
        """Give it back; nothing happens where it is not owned."""
        if self._lease is not None:
            self._lease.release()
        if self._kernel is not None:
            self._kernel.release()

    def _outlive_old(self) -> bool:
        """Wait for a holder that has its lease in the lock's file; False where it lives."""
        watch = LeaseWatch()
        sign: Sign
        with storage_errors(self._path):
            while (holder := _read_old(self._path)) is not None:
                sign = watch.sign_of(self._path, holder)
                if sign == "living":
                    return False
                if sign == "dead":
                    # Emptied in place: the kernel's lock is on this very file.
                    os.truncate(self._path, 0)
                    return True
                time.sleep(LOOK_INTERVAL_S)
        return True


def _read_old(path: Path) -> Holder | None:
    """Return the holder of a lease that lies in a lock's file itself; None of an empty file."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        return read_lease(path) if stat.S_ISREG(status.st_mode) and status.st_size else None
    return None

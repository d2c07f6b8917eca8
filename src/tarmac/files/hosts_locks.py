"""Locks between all hosts: a lease, and also the kernel's lock on a local file system.

A directory on one host's own disk may be visible to another host over the network. So `open_lock`
always writes a lease, whatever the file system. On a local file system, it takes the kernel's lock
too. The kernel's lock decides only between two processes that both see a local file system.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tarmac.files.atomic import StorageError, storage_errors
from tarmac.files.holders import HEARTBEAT_INTERVAL_S, Holder, LeaseWatch, Sign, read_lease
from tarmac.files.lease import LOOK_INTERVAL_S, Lease
from tarmac.files.locks import OwnerLock, is_owned
from tarmac.files.mounts import is_network


class Lock(Protocol):
    """A lock that one process at a time holds: an `OwnerLock`, or a `Lease`."""

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken the lock over, because this process seemed dead."""
        ...

    def acquire(self) -> bool:
        """Take the lock; return False while another live process holds it."""
        ...

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        ...


def open_lock(path: Path) -> Lock:
    """Return a lock that works between all hosts, however each mounts the directory.

    Args:
        path: File of the kernel's lock, created on a local file system. The lease is beside it; see
            `lease_file`.
    """
    return _HostsLock(path)


@contextlib.contextmanager
def taking_turns(path: Path) -> Iterator[None]:
    """Run a block in one process at a time; wait for other processes without a limit.

    The lock works between all hosts, however each mounts the directory.

    Args:
        path: File of the kernel's lock. The lease is beside it; see `lease_file`.

    Raises:
        FileNotFoundError: The file's directory is missing.
        StorageError: The file cannot be created, or is no lock file.
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
    """Whether the holder of a lock of `open_lock` is alive; never waits.

    Args:
        path: File of the kernel's lock.
        watch: Watch that keeps heartbeats between calls. Default: none, so a holder on another host
            counts as alive.
        is_remote: Whether this host sees the file over the network. Default: look it up.
    """
    if is_remote is None:
        is_remote = is_network(path)
    if not is_remote and is_owned(path):
        return True
    # For another user's lock, whose file this process cannot open, only the lease tells.
    is_private = os.access(path, os.F_OK) and not os.access(path, os.R_OK)
    try:
        holder = read_holder(path)
    except OSError:
        # A damaged lease does not stop a process from taking the kernel's lock, which is free.
        return is_remote or is_private
    if holder is None:
        return False
    if holder.is_kernel_locked and not is_remote and not is_private:
        return False
    return (watch or LeaseWatch()).sign_of(path, holder) != "dead"


def lease_file(path: Path) -> Path:
    """Return the path of the lease that belongs to a lock file."""
    return path.with_name(f"{path.name}.lease")


def read_holder(path: Path) -> Holder | None:
    """Return the holder in a lock's lease, alive or not; None without a lease.

    Args:
        path: File of the kernel's lock. Older versions kept the lease itself there on network
            file systems; an empty file is no lease.

    Raises:
        OSError: The lease cannot be read.
    """
    return read_lease(lease_file(path)) or _read_old(path)


class _HostsLock:
    """A lease, and also the kernel's lock on a local file system; see `open_lock`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kernel: OwnerLock | None = None
        self._lease: Lease | None = None

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken the lock over; see `Lock`."""
        return self._lease is not None and self._lease.is_lost

    def acquire(self) -> bool:
        """Take the lock; return False while another live process holds it.

        Raises:
            FileNotFoundError: The file's directory is missing.
            StorageError: The file cannot be created.
        """
        is_local = not is_network(self._path)
        if is_local:
            self._kernel = self._kernel or OwnerLock(self._path)
            if not self._kernel.acquire():
                return False
        if self._lease is None:
            self._lease = Lease(
                lease_file(self._path), beat_s=HEARTBEAT_INTERVAL_S, is_kernel_locked=is_local
            )
        try:
            is_mine = self._outlive_old() and self._lease.acquire()
        except StorageError:
            # On a full disk or without hard links, other hosts cannot take a lease either.
            if not is_local:
                raise
            is_mine = True
        if not is_mine:
            self.release()
        return is_mine

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._lease is not None:
            self._lease.release()
        if self._kernel is not None:
            self._kernel.release()

    def _outlive_old(self) -> bool:
        """Wait for a holder with its lease in the lock file itself; return False if it is alive."""
        watch = LeaseWatch()
        sign: Sign
        with storage_errors(self._path):
            while (holder := _read_old(self._path)) is not None:
                sign = watch.sign_of(self._path, holder)
                if sign == "living":
                    return False
                if sign == "dead":
                    # Truncated in place, because the kernel's lock is on this very file.
                    os.truncate(self._path, 0)
                    return True
                time.sleep(LOOK_INTERVAL_S)
        return True


def _read_old(path: Path) -> Holder | None:
    """Return the holder of a lease in the lock file itself; None for an empty file."""
    with contextlib.suppress(FileNotFoundError):
        status = path.lstat()
        return read_lease(path) if stat.S_ISREG(status.st_mode) and status.st_size else None
    return None

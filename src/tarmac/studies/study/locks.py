"""The locks between the processes that write a study.

Processes of one machine use kernel locks, which end with their holders. Processes of several hosts
use leases, because a kernel lock may not reach beyond its host.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from tarmac.files import Lease, Lock, OwnerLock

Locks = Literal["kernel", "leases"]


def turns(path: Path, locks: Locks) -> AbstractContextManager[object]:
    """Return a reentrant lock, as a context manager, that one process at a time may hold.

    Args:
        path: Path of the lock file.
        locks: Kind of lock: ``kernel`` on a single machine, ``leases`` across hosts.
    """
    return _Turns(short_lock(path, locks))


def owner_lock(path: Path, locks: Locks) -> Lock:
    """Return a lock that one process owns for long, and that others need not wait for."""
    return short_lock(path, locks)


def short_lock(path: Path, locks: Locks) -> OwnerLock | Lease:
    """Return a lock that processes hold briefly, so that others may wait for it."""
    return OwnerLock(path) if locks == "kernel" else Lease(path)


class _Turns:
    def __init__(self, lock: OwnerLock | Lease) -> None:
        self._lock = lock
        # Threads of this process share the lock, so they need a lock of their own.
        self._thread = threading.RLock()
        self._depth = 0

    def __enter__(self) -> None:
        self._thread.acquire()
        try:
            if self._depth == 0:
                self._lock.wait()
        except BaseException:
            self._thread.release()
            raise
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        try:
            if self._depth == 0:
                self._lock.release()
        finally:
            self._thread.release()

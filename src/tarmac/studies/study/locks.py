"""How the processes that write a study keep out of each other's way.

On one machine by the kernel's locks, which end with their holders. Where several hosts work on a
study by leases, for the kernel's may end at the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from filelock import FileLock

from tarmac.files import Lease, Lock, OwnerLock

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["Locks", "owner_lock", "turns"]

Locks = Literal["kernel", "leases"]


def turns(path: Path, locks: Locks) -> AbstractContextManager[object]:
    """Return what one process at a time may be in; it may enter it again while it is.

    Args:
        path: Of the lock's file.
        locks: By what.
    """
    return FileLock(path, is_singleton=False) if locks == "kernel" else _LeaseTurns(path)


def owner_lock(path: Path, locks: Locks) -> Lock:
    """Return a lock that one process at a time owns, and the others need not wait for."""
    return OwnerLock(path) if locks == "kernel" else Lease(path)


class _LeaseTurns:
    def __init__(self, path: Path) -> None:
        self._lease = Lease(path)
        self._depth = 0

    def __enter__(self) -> None:
        if self._depth == 0:
            self._lease.wait()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._lease.release()

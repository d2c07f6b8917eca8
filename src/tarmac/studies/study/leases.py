"""Who works on a study: a lock for each process that does, which ends with it however it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from typing import TYPE_CHECKING

from tarmac.files import OwnerLock, remove_unowned, storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Leases"]


class Leases:
    """The processes that work on a study.

    A trial under way names the process that trains it. That process is alive for as long as its
    lock is held: the kernel gives the lock back when it dies, and a number that another process has
    come to use since says nothing.

    Args:
        directory: Of the locks; made when the first process begins.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextlib.contextmanager
    def work(self) -> Iterator[str]:
        """Be one of the processes while the block lasts; gives the name to put on trials."""
        with storage_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
        while True:
            name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            path = self._directory / name
            lock = OwnerLock(path)
            with storage_errors(path):
                is_mine = lock.acquire()
            if is_mine and path.exists():
                break
            # Another process asked between the file's making and its locking, and removed it.
            lock.release()
        try:
            yield name
        finally:
            path.unlink(missing_ok=True)
            lock.release()

    def is_alive(self, name: str | None) -> bool:
        """Whether the process of that name still works; where that cannot be asked, it does."""
        path = self._directory / (name or "")
        if not name or not path.is_file():
            return False
        return not remove_unowned(path)

    def living(self) -> list[str]:
        """Return the names of all that work now."""
        if not self._directory.is_dir():
            return []
        names = sorted(path.name for path in self._directory.iterdir())
        return [name for name in names if self.is_alive(name)]

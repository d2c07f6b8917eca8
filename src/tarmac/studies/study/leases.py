"""Who works on a study: a lock for each process that does, which ends with it however it ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from typing import TYPE_CHECKING

from tarmac.files import LeaseWatch, is_network, read_lease, remove_unowned, storage_errors
from tarmac.studies.study.locks import owner_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tarmac.studies.study.locks import Locks

# Clocks of hosts and file servers differ by less than this.
_LONG_AGO_S = 600.0


class Leases:
    """The processes that work on a study.

    A trial under way names the process that trains it. That process is alive for as long as its
    lock is held: the kernel gives the lock back when it dies, and a number that another process has
    come to use since says nothing. Between hosts a lease tells it, which takes three of its beats.

    Args:
        directory: Directory of the locks; made when the first process begins.
        locks: By what processes are known to live.
    """

    def __init__(self, directory: Path, locks: Locks = "kernel") -> None:
        self._directory = directory
        self._locks = locks
        self._watch = LeaseWatch()

    @contextlib.contextmanager
    def work(self) -> Iterator[str]:
        """Be one of the processes while the block lasts; gives the name to put on trials."""
        with storage_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
        while True:
            name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            path = self._directory / name
            lock = owner_lock(path, self._locks)
            with storage_errors(path):
                is_mine = lock.acquire()
            if is_mine and path.exists():
                break
            # Another process asked between the file's making and its locking, and removed it.
            lock.release()
        try:
            yield name
        finally:
            if self._locks == "kernel":
                # Whoever looks next removes one whose owner is gone.
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            lock.release()

    def is_alive(self, name: str | None) -> bool:
        """Whether the process of that name still works; where that cannot be asked, it does."""
        path = self._directory / (name or "")
        if not name or not path.is_file():
            return False
        if self._locks == "kernel":
            # The kernel's lock of the host whose disk it is on cannot be asked over the network.
            return is_network(path) or not remove_unowned(path)
        if self._watch.is_alive(path):
            return True
        # One that was only suspended makes it anew at its next beat.
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return False

    def is_certain(self, name: str | None) -> bool:
        """Whether it is known if the process of that name works: it was seen to, or does not."""
        path = self._directory / (name or "")
        if not name or self._locks == "kernel":
            return True
        try:
            holder = read_lease(path)
        except OSError:
            return False
        return holder is None or self._watch.sign_of(path, holder) != "silent"

    def living(self) -> list[str]:
        """Return the names of all that work now."""
        return [name for name in self._names() if self.is_alive(name)]

    def seem_living(self) -> list[str]:
        """Return the names of all that seem to work, at a single look and without waiting.

        A lease of another host that nobody has written for ten minutes seems dead. This is for
        words to people: what follows from a death is decided by `is_alive`.
        """
        return [name for name in self.living() if not self._is_old(self._directory / name)]

    def _names(self) -> list[str]:
        if not self._directory.is_dir():
            return []
        names = sorted(path.name for path in self._directory.iterdir())
        return [name for name in names if not name.startswith(".") and not name.endswith(".after")]

    def _is_old(self, path: Path) -> bool:
        if self._locks == "kernel":
            return False
        try:
            return time.time() - path.stat().st_mtime > _LONG_AGO_S
        except OSError:
            return True

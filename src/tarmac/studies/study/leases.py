"""The leases of the processes that work on a study, which end with their process in any case."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from tarmac.files import (
    LeaseWatch,
    is_network,
    is_owned,
    read_lease,
    remove_unowned,
    storage_errors,
)
from tarmac.studies.study.locks import Locks, owner_lock

# Clocks of hosts and file servers differ by less than this.
_LONG_AGO_S = 600.0


class Leases:
    """The leases of the processes that work on a study.

    A running trial names the process that trains it. On one host, that process is alive while it
    holds its lock: the kernel releases the lock when the process dies, so reused PIDs do no harm.
    Between hosts, a lease shows whether the process is alive, after three of its heartbeats.

    Args:
        directory: Directory of the locks; the first process creates it.
        locks: Kind of lock: ``kernel`` on a single machine, ``leases`` across hosts.
    """

    def __init__(self, directory: Path, locks: Locks = "kernel") -> None:
        self._directory = directory
        self._locks = locks
        self._watch = LeaseWatch()

    @contextlib.contextmanager
    def work(self) -> Iterator[str]:
        """Hold a lease while the block runs; yield its name, which marks the process's trials."""
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
            # Another process removed the file between its creation and its locking.
            lock.release()
        try:
            yield name
        finally:
            if self._locks == "kernel":
                # If this fails, the next `remove_dead` of any process removes the file.
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            lock.release()

    def is_alive(self, name: str | None) -> bool:
        """Return whether the process of a lease is alive; True if that cannot be checked."""
        path = self._directory / (name or "")
        if not name or not path.is_file():
            return False
        if self._locks == "kernel":
            # A kernel lock of the host that owns the disk cannot be checked over the network.
            return is_network(path) or is_owned(path)
        return self._watch.is_alive(path)

    def is_certain(self, name: str | None) -> bool:
        """Return whether a process is known to be alive, or known to be gone."""
        path = self._directory / (name or "")
        if not name or self._locks == "kernel":
            return True
        try:
            holder = read_lease(path)
        except OSError:
            return False
        return holder is None or self._watch.sign_of(path, holder) != "silent"

    def living(self) -> list[str]:
        """Return the names of all live processes."""
        return [name for name in lease_names(self._directory) if self.is_alive(name)]

    def remove_dead(self) -> list[str]:
        """Delete the leases of dead processes; return the names of all live ones."""
        living = []
        for name in lease_names(self._directory):
            path = self._directory / name
            if self.is_alive(name):
                living.append(name)
            elif self._locks == "kernel":
                remove_unowned(path)
            else:
                # A process that was only suspended creates the file again at its next heartbeat.
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        return living

    def seem_living(self) -> list[str]:
        """Return the names of all processes that seem alive, by a single poll without waiting.

        A lease of another host that was not written for ten minutes seems dead. This is for
        messages only: decisions rely on `is_alive`.
        """
        names = self.living()
        if self._locks == "kernel":
            return names
        return [name for name in names if not is_long_silent(self._directory / name)]


def lease_names(directory: Path) -> list[str]:
    """Return the names of all leases in a directory, of live and dead processes."""
    if not directory.is_dir():
        return []
    names = sorted(path.name for path in directory.iterdir())
    return [name for name in names if not name.startswith(".") and not name.endswith(".after")]


def is_long_silent(lease: Path) -> bool:
    """Whether a lease between hosts was not written for ten minutes."""
    try:
        return time.time() - lease.stat().st_mtime > _LONG_AGO_S
    except OSError:
        return True


def status_of(recorded: str, *, is_worked_on: bool) -> str:
    """Return the status of a study; the record of a killed search still says ``running``."""
    if is_worked_on:
        return "running"
    return "interrupted" if recorded == "running" else recorded

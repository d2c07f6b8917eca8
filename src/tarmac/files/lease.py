"""Leases: locks that work across hosts, even on file systems where kernel locks do not.

NFS, Lustre and similar file systems accept kernel locks, but may limit them to the host that took
them. A lease is a file instead. The process that creates the file holds the lease, and increments a
counter in the file every ten seconds as its heartbeat. Clocks of hosts differ, so no times are
compared. An observer waits, by its own clock, for the counter to grow.

Example:
    >>> from tarmac.files import Lease
    >>> lease, other = Lease(tmp_path / "lease"), Lease(tmp_path / "lease")
    >>> lease.acquire(), other.acquire()
    (True, False)
    >>> lease.release()
    >>> other.acquire()
    True
    >>> other.release()
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tarmac.files.atomic import storage_errors
from tarmac.files.holders import (
    HEARTBEAT_INTERVAL_S,
    MISSED_BEATS,
    Holder,
    LeaseWatch,
    Sign,
    claim,
    read_lease,
    successor,
)
from tarmac.files.leftovers import temporary_path

LOOK_INTERVAL_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1


class Lease:
    """A lock that one process at a time owns, on any host, until it releases the lock or dies.

    The file system only has to support links, renames and reads of small files. A file beside the
    lease fixes at most one successor of each holder.

    Args:
        path: File of the lease; exists while the lease is held. A take-over leaves a small file
            beside it, with the dead holder's nonce in its name.
        beat_s: Seconds between two heartbeats. Default 10.
        is_kernel_locked: Whether the caller also holds the kernel's lock, on a local file system. A
            previous holder that held it too is then dead. Default False.
    """

    def __init__(
        self, path: Path, *, beat_s: float = HEARTBEAT_INTERVAL_S, is_kernel_locked: bool = False
    ) -> None:
        self._path = path
        self._beat_s = beat_s
        self._is_kernel_locked = is_kernel_locked
        self._mine: Holder | None = None
        self._beaten_at = 0.0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self.is_lost = False

    def acquire(self) -> bool:
        """Take the lease; return False while another live process owns it.

        The check of a holder on another host takes until its next heartbeat, or three heartbeats if
        it is dead.

        Raises:
            FileNotFoundError: The file's directory is missing.
            StorageError: The file cannot be created.
        """
        if self._mine is not None and not self.is_lost:
            return True
        watch = LeaseWatch()
        sign: Sign | None
        while (sign := self._try(watch)) == "silent":
            time.sleep(LOOK_INTERVAL_S)
        return sign is None

    def release(self) -> None:
        """Release the lease; do nothing if it is not held."""
        if self._mine is None:
            return
        mine, self._mine = self._mine, None
        self._end.set()
        assert self._thread is not None
        self._thread.join()
        # If this process may have counted as dead, the file may belong to another process now.
        is_recent = time.monotonic() - self._beaten_at < (MISSED_BEATS - 1) * self._beat_s
        if is_recent and not successor(self._path, mine.nonce).exists():
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def wait(self) -> None:
        """Take the lease, waiting without a limit; for leases that are held for moments.

        Raises:
            FileNotFoundError: The file's directory is missing.
            StorageError: The file cannot be created.
        """
        watch = LeaseWatch()
        pause_s = _FIRST_PAUSE_S
        while self._try(watch) is not None:
            # Random, so that waiting processes do not poll in step.
            time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease during the block; see `wait`."""
        self.wait()
        try:
            yield
        finally:
            self.release()

    def _try(self, watch: LeaseWatch) -> Sign | None:
        """Take a free lease and return None; else return the state of its holder."""
        if not self._path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path.parent)
        with storage_errors(self._path):
            holder = read_lease(self._path)
            sign = None if holder is None else self._sign_of(holder, watch)
            if sign in ("living", "silent"):
                return sign
            mine = claim(self._beat_s, is_kernel_locked=self._is_kernel_locked)
            draft = _write_beside(self._path, mine)
            try:
                if holder is None:
                    os.link(draft, self._path)
                else:
                    os.link(draft, successor(self._path, holder.nonce))
                    draft.replace(self._path)
            except FileExistsError:
                # Another process was faster; the next poll shows whether it is alive.
                return "silent"
            finally:
                # A draft that cannot be deleted now stays for a later process to remove.
                with contextlib.suppress(OSError):
                    draft.unlink(missing_ok=True)
        self._begin(mine)
        return None

    def _sign_of(self, holder: Holder, watch: LeaseWatch) -> Sign:
        if self._is_kernel_locked and holder.is_kernel_locked:
            return "dead"
        return watch.sign_of(self._path, holder)

    def _begin(self, mine: Holder) -> None:
        self._mine, self.is_lost = mine, False
        self._beaten_at = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(
            target=self._beat, args=(mine, self._end), name="lease", daemon=True
        )
        self._thread.start()

    def _beat(self, mine: Holder, end: threading.Event) -> None:
        while not end.wait(self._beat_s):
            try:
                if successor(self._path, mine.nonce).exists():
                    self.is_lost = True
                    return
                mine = dataclasses.replace(mine, beat=mine.beat + 1)
                _write_beside(self._path, mine).replace(self._path)
            except OSError:
                # An unreachable server gets the next heartbeat.
                continue
            self._beaten_at = time.monotonic()


def _write_beside(path: Path, holder: Holder) -> Path:
    draft = temporary_path(path.parent, ".lease")
    try:
        values = dataclasses.asdict(holder)
        if not holder.is_kernel_locked:
            # Older versions refuse unknown fields.
            del values["is_kernel_locked"]
        draft.write_text(json.dumps(values))
    except OSError:
        # On a full disk, a draft per heartbeat would stay.
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    return draft

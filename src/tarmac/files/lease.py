"""Leases: locks that hold across hosts, also on file systems where the kernel's own do not.

NFS, Lustre and their like take locks of the kernel, and may keep them to the host that asked. A
lease is a file instead: who made it holds it, and shows that it lives by a counter that grows every
ten seconds. Clocks of hosts differ, so nobody compares times: whoever wants to know waits, by its
own clock, for the counter to grow.

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
from typing import TYPE_CHECKING

from tarmac.files.atomic import storage_errors
from tarmac.files.holders import (
    BEAT_S,
    MISSED_BEATS,
    Holder,
    LeaseWatch,
    Sign,
    claim,
    read_lease,
    successor,
)
from tarmac.files.leftovers import temporary_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOOK_INTERVAL_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1


class Lease:
    """A lock that one process at a time owns, on whatever host, until it gives it back or dies.

    Only links, renames and reads of small files are asked of the file system. For every holder
    there is at most one that takes over from it, which a file beside the lease decides for good.

    Args:
        path: File of the lease; exists while the lease is held. A take-over leaves a small file
            beside it, with the dead holder's nonce in its name.
        beat_s: Seconds between two heartbeats. Default 10.
        is_kernel_locked: Whether the caller holds the kernel's lock too, on a local file system.
            Then a holder that did so is dead. Default False.
    """

    def __init__(
        self, path: Path, *, beat_s: float = BEAT_S, is_kernel_locked: bool = False
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
        """Become the owner; False where another one is alive. Does not wait for that one's end.

        Whether a holder on another host lives takes until its next beat to see, or three where it
        does not.

        Raises:
            FileNotFoundError: The file's directory is not there.
            StorageError: The file cannot be made.
        """
        if self._mine is not None and not self.is_lost:
            return True
        watch = LeaseWatch()
        sign: Sign | None
        while (sign := self._try(watch)) == "silent":
            time.sleep(LOOK_INTERVAL_S)
        return sign is None

    def release(self) -> None:
        """Give it back; nothing happens where it is not owned."""
        if self._mine is None:
            return
        mine, self._mine = self._mine, None
        self._end.set()
        assert self._thread is not None
        self._thread.join()
        # Where it may have been taken for dead, the file may be another one's by now.
        is_recent = time.monotonic() - self._beaten_at < (MISSED_BEATS - 1) * self._beat_s
        if is_recent and not successor(self._path, mine.nonce).exists():
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)

    def wait(self) -> None:
        """Become the owner, however long another one is it before; for locks held for moments.

        Raises:
            FileNotFoundError: The file's directory is not there.
            StorageError: The file cannot be made.
        """
        watch = LeaseWatch()
        pause_s = _FIRST_PAUSE_S
        while self._try(watch) is not None:
            # Many that wait do not look in step.
            time.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Own it while the block lasts; see `wait`."""
        self.wait()
        try:
            yield
        finally:
            self.release()

    def _try(self, watch: LeaseWatch) -> Sign | None:
        """Take the lease where it is free; return what is known of its holder where it is not."""
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
                # Another one was faster; whether it lives is seen at the next look.
                return "silent"
            finally:
                # It stays where it cannot be removed, and whoever comes next tries again.
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
                # A server that is away for a moment takes the next beat.
                continue
            self._beaten_at = time.monotonic()


def _write_beside(path: Path, holder: Holder) -> Path:
    draft = temporary_path(path.parent, ".lease")
    try:
        values = dataclasses.asdict(holder)
        if not holder.is_kernel_locked:
            # As older versions have it, which refuse fields that they do not know.
            del values["is_kernel_locked"]
        draft.write_text(json.dumps(values))
    except OSError:
        # On a full disk it would stay, one for each beat.
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    return draft

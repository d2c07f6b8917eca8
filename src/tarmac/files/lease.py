"""Leases: locks that hold across hosts, also on file systems where the kernel's own do not.

NFS, Lustre and their like take locks of the kernel, and may keep them to the host that asked. A
lease is a file instead: who made it holds it, and shows that it lives by a counter that grows every
ten seconds. Clocks of hosts differ, so nobody compares times: whoever wants to know waits, by its
own clock, for the counter to grow.

One host may have a directory on its own disk that another one sees over the network. So `open_lock`
always writes a lease, whatever the file system, and takes the kernel's lock besides where the file
system is local. The kernel's lock decides only between two processes that both see a local one.

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
import functools
import json
import os
import random
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from tarmac.files.atomic import StorageError, open_regular, storage_errors
from tarmac.files.locks import OwnerLock, is_owned
from tarmac.files.mounts import is_network
from tarmac.files.parsing import Shape, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BEAT_S",
    "Holder",
    "Lease",
    "LeaseWatch",
    "Lock",
    "is_held",
    "lease_file",
    "open_lock",
    "read_holder",
    "read_lease",
    "taking_turns",
]

# Between two beats of a holder, in seconds.
BEAT_S = 10.0

# A holder that misses so many beats is taken for dead.
_MISSED = 3

_LOOK_EVERY_S = 0.2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.002, 0.1

# What is known of a holder: `silent` is neither seen to live nor silent for long enough.
_Sign = Literal["living", "silent", "dead"]


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
        OSError: The file's directory is not there, or it cannot be made.
    """
    if is_network(path):
        with Lease(lease_file(path)).held():
            yield
        return
    # Costs a fifth of what `tarmac top --once` may take, which only asks who holds a lock.
    from filelock import FileLock  # noqa: PLC0415

    with FileLock(path, is_singleton=False):
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
        watch: Of a caller that looks more than once. Without it an owner on another host counts as
            alive.
        is_remote: Whether this host sees the file over the network. Default: look it up.
    """
    if is_remote is None:
        is_remote = is_network(path)
    if not is_remote and is_owned(path):
        return True
    try:
        holder = read_holder(path)
    except OSError:
        return True
    if holder is None or (holder.is_kernel_locked and not is_remote):
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


@dataclasses.dataclass(frozen=True)
class Holder:
    """What a lease's file says of who holds it.

    Attributes:
        host: Its machine, by name.
        kernel: Which start of which kernel, and which of its PID namespaces: where `pid` means it.
        pid: Its number.
        start_ticks: When that process began, in clock ticks since the machine's start.
        nonce: Of this acquisition.
        beat: Grows while it lives.
        beat_s: Seconds between two beats.
        is_kernel_locked: Whether it holds the kernel's lock too, on a local file system.
    """

    host: str
    kernel: str
    pid: int
    start_ticks: int
    nonce: str
    beat: int = 0
    beat_s: float = BEAT_S
    is_kernel_locked: bool = False


_HOLDER = Shape(
    {
        "host": "text",
        "kernel": "text",
        "pid": "whole number",
        "start_ticks": "whole number",
        "nonce": "text",
    },
    {"beat": "whole number", "beat_s": "seconds", "is_kernel_locked": "boolean"},
)


def read_lease(path: Path) -> Holder | None:
    """Return who holds a lease, alive or not; None where nobody does.

    Raises:
        OSError: It cannot be read.
    """
    holder = found = _read(path)
    while found is not None:
        holder, found = found, _read(_successor(path, found.nonce))
    return holder


class LeaseWatch:
    """Watches leases, to tell holders that live from those that do not; it never waits.

    A holder on this host is looked up among its processes. One on another host is alive until its
    beat has stood still for three of its beats since this watch first saw it.
    """

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[str, int, float, bool]] = {}

    def is_alive(self, path: Path) -> bool:
        """Whether a lease is held by a process that lives; where that cannot be asked, it is."""
        try:
            holder = read_lease(path)
        except OSError:
            return True
        return holder is not None and self.sign_of(path, holder) != "dead"

    def sign_of(self, path: Path, holder: Holder) -> _Sign:
        """Return what is known of a lease's holder, as `read_lease` has just returned it."""
        if not holder.pid:
            return "dead"
        if holder.kernel == _kernel():
            return "living" if _start_ticks(holder.pid) == holder.start_ticks else "dead"
        now = time.monotonic()
        nonce, beat, since, was_seen_to_live = self._seen.get(path, ("", 0, now, False))
        if (nonce, beat) != (holder.nonce, holder.beat):
            was_seen_to_live, since = nonce == holder.nonce, now
            self._seen[path] = (holder.nonce, holder.beat, since, was_seen_to_live)
        if now - since >= _MISSED * holder.beat_s:
            return "dead"
        return "living" if was_seen_to_live else "silent"


class Lease:
    """A lock that one process at a time owns, on whatever host, until it gives it back or dies.

    Only links, renames and reads of small files are asked of the file system. For every holder
    there is at most one that takes over from it, which a file beside the lease decides for good.

    Args:
        path: Of the lease's file, which is there while it is held. A take-over leaves a small file
            beside it, named after the holder that died.
        beat_s: Seconds between two beats. Default 10.
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
        sign: _Sign | None
        while (sign := self._try(watch)) == "silent":
            time.sleep(_LOOK_EVERY_S)
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
        is_recent = time.monotonic() - self._beaten_at < (_MISSED - 1) * self._beat_s
        if is_recent and not _successor(self._path, mine.nonce).exists():
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

    def _try(self, watch: LeaseWatch) -> _Sign | None:
        """Take the lease where it is free; return what is known of its holder where it is not."""
        if not self._path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path.parent)
        with storage_errors(self._path):
            holder = read_lease(self._path)
            sign = None if holder is None else self._sign_of(holder, watch)
            if sign in ("living", "silent"):
                return sign
            mine = _claim(self._beat_s, is_kernel_locked=self._is_kernel_locked)
            draft = _write_beside(self._path, mine)
            try:
                if holder is None:
                    os.link(draft, self._path)
                else:
                    os.link(draft, _successor(self._path, holder.nonce))
                    draft.replace(self._path)
            except FileExistsError:
                # Another one was faster; whether it lives is seen at the next look.
                return "silent"
            finally:
                draft.unlink(missing_ok=True)
        self._begin(mine)
        return None

    def _sign_of(self, holder: Holder, watch: LeaseWatch) -> _Sign:
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
                if _successor(self._path, mine.nonce).exists():
                    self.is_lost = True
                    return
                mine = dataclasses.replace(mine, beat=mine.beat + 1)
                _write_beside(self._path, mine).replace(self._path)
            except OSError:
                # A server that is away for a moment takes the next beat.
                continue
            self._beaten_at = time.monotonic()


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
        sign: _Sign
        with storage_errors(self._path):
            while (holder := _read_old(self._path)) is not None:
                sign = watch.sign_of(self._path, holder)
                if sign == "living":
                    return False
                if sign == "dead":
                    # Emptied in place: the kernel's lock is on this very file.
                    os.truncate(self._path, 0)
                    return True
                time.sleep(_LOOK_EVERY_S)
        return True


def _claim(beat_s: float, *, is_kernel_locked: bool) -> Holder:
    return Holder(
        host=socket.gethostname(),
        kernel=_kernel(),
        pid=os.getpid(),
        start_ticks=_start_ticks(os.getpid()) or 0,
        nonce=secrets.token_hex(8),
        beat_s=beat_s,
        is_kernel_locked=is_kernel_locked,
    )


@functools.cache
def _kernel() -> str:
    """Name this start of the machine, and the namespace whose process numbers are seen here."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()} {boot} {Path('/proc/self/ns/pid').readlink()}"


def _start_ticks(pid: int) -> int | None:
    """Return when a process began; None where there is none, or only what is left of one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # proc(5): fields 3, the state, and 22; the second is a name that may hold anything.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _successor(path: Path, nonce: str) -> Path:
    """Return the file of who takes over from a holder."""
    return path.with_name(f"{path.name}.{nonce}.after")


def _read_old(path: Path) -> Holder | None:
    """Return the holder of a lease that lies in a lock's file itself; None of an empty file."""
    with contextlib.suppress(FileNotFoundError):
        return read_lease(path) if path.stat().st_size else None
    return None


def _write_beside(path: Path, holder: Holder) -> Path:
    draft = path.with_name(f".{secrets.token_hex(8)}.lease")
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


def _read(path: Path) -> Holder | None:
    # The directory is opened anew, upon which network file systems ask their server.
    with contextlib.suppress(OSError):
        os.close(os.open(path.parent, os.O_RDONLY))
    try:
        with open_regular(path) as file:
            if content := file.read():
                return Holder(**_HOLDER.checked(parse_json(content)))
            # A crash of the machine leaves an empty file, which no process holds.
            left = os.fstat(file.fileno())
            return Holder("", "", 0, 0, nonce=f"empty-{left.st_ino}-{left.st_mtime_ns}")
    except FileNotFoundError:
        return None
    except OSError as error:
        # NFS says so where the file was replaced in the midst of this.
        if error.errno == errno.ESTALE:
            return _read(path)
        raise
    except (ValueError, TypeError) as error:
        raise OSError(errno.EIO, f"is no lease: {error}", str(path)) from error

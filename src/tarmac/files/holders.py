"""Who holds a lease, as its file says, and whether that process is alive."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import reprlib
import secrets
import socket
import time
from typing import TYPE_CHECKING, Literal

from tarmac.files.atomic import open_regular
from tarmac.files.leftovers import kernel_name, start_ticks
from tarmac.files.parsing import Shape, parse_json

if TYPE_CHECKING:
    from pathlib import Path

# Between two beats of a holder, in seconds.
BEAT_S = 10.0

# A holder that misses so many beats is taken for dead.
MISSED_BEATS = 3

# What is known of a holder: `silent` is neither seen to live nor silent for long enough.
Sign = Literal["living", "silent", "dead"]


@dataclasses.dataclass(frozen=True)
class Holder:
    """What a lease's file says of who holds it.

    Attributes:
        host: Host name of the holder's machine.
        kernel: Host name, boot ID and PID namespace in which ``pid`` is valid.
        pid: Process ID of the holder, in that PID namespace.
        start_ticks: When that process began, in clock ticks since the machine's start.
        nonce: Random word of this acquisition: 1 to 64 letters, digits, ``_`` or ``-``.
        beat: Number of heartbeats so far; grows while the holder is alive.
        beat_s: Seconds between two heartbeats. Default 10.
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


# A lease has some 200.
_MAX_BYTES = 2**16

_NONCE = re.compile(r"[\w-]{1,64}")

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
    holder = newer = _read(path)
    while newer is not None:
        holder, newer = newer, _read(successor(path, newer.nonce))
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

    def sign_of(self, path: Path, holder: Holder) -> Sign:
        """Return what is known of a lease's holder, as `read_lease` has just returned it."""
        if not holder.pid:
            return "dead"
        if holder.kernel == kernel_name():
            return "living" if start_ticks(holder.pid) == holder.start_ticks else "dead"
        now = time.monotonic()
        nonce, beat, since, was_seen_to_live = self._seen.get(path, ("", 0, now, False))
        if (nonce, beat) != (holder.nonce, holder.beat):
            was_seen_to_live, since = nonce == holder.nonce, now
            self._seen[path] = (holder.nonce, holder.beat, since, was_seen_to_live)
        if now - since >= MISSED_BEATS * holder.beat_s:
            return "dead"
        return "living" if was_seen_to_live else "silent"


def claim(beat_s: float, *, is_kernel_locked: bool) -> Holder:
    """Return this process as the holder of a lease that it is about to take."""
    return Holder(
        host=socket.gethostname(),
        kernel=kernel_name(),
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
        nonce=secrets.token_hex(8),
        beat_s=beat_s,
        is_kernel_locked=is_kernel_locked,
    )


def successor(path: Path, nonce: str) -> Path:
    """Return the file of who takes over from a holder."""
    return path.with_name(f"{path.name}.{nonce}.after")


def _read(path: Path) -> Holder | None:
    # The directory is opened anew, upon which network file systems ask their server.
    with contextlib.suppress(OSError):
        os.close(os.open(path.parent, os.O_RDONLY))
    try:
        with open_regular(path) as file:
            if content := file.read(_MAX_BYTES):
                return _checked(Holder(**_HOLDER.checked(parse_json(content))))
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


def _checked(holder: Holder) -> Holder:
    """Return a holder whose nonce may be part of a file's name."""
    if not _NONCE.fullmatch(holder.nonce):
        raise ValueError(f"nonce is {reprlib.repr(holder.nonce)}, expected a word")
    return holder

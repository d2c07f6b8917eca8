"""The holder of a lease, from the lease's file, and whether that process is alive."""

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
from pathlib import Path
from typing import Literal

from tarmac.files.atomic import open_regular
from tarmac.files.leftovers import kernel_name
from tarmac.files.parsing import Shape, parse_json
from tarmac.process_ids import start_ticks

# Interval between two heartbeats of a holder, in seconds.
HEARTBEAT_INTERVAL_S = 10.0

# Number of missed heartbeats after which a holder counts as dead.
MISSED_BEATS = 3

# A `silent` holder has shown no heartbeat, but not for long enough to count as dead.
Sign = Literal["living", "silent", "dead"]


@dataclasses.dataclass(frozen=True)
class Holder:
    """The holder of a lease, as its file records it.

    Attributes:
        host: Host name of the holder's machine.
        kernel: Host name, boot ID and PID namespace in which ``pid`` is valid.
        pid: Process ID of the holder, in that PID namespace.
        start_ticks: Start time of that process, in clock ticks since the machine's start.
        nonce: Random word of this acquisition: 1 to 64 letters, digits, ``_`` or ``-``.
        beat: Number of heartbeats so far; grows while the holder is alive.
        beat_s: Seconds between two heartbeats. Default 10.
        is_kernel_locked: Whether the holder also has the kernel's lock, on a local file system.
            Default False.
    """

    host: str
    kernel: str
    pid: int
    start_ticks: int
    nonce: str
    beat: int = 0
    beat_s: float = HEARTBEAT_INTERVAL_S
    is_kernel_locked: bool = False


# A lease has about 200 bytes.
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
    """Return the holder of a lease, alive or not; None without a holder.

    Raises:
        OSError: The lease cannot be read.
    """
    holder = newer = _read(path)
    while newer is not None:
        holder, newer = newer, _read(successor(path, newer.nonce))
    return holder


class LeaseWatch:
    """A watch of leases that distinguishes live from dead holders; it never waits.

    A holder on this host is looked up among its processes. A holder on another host is alive until
    its counter has stood still for three heartbeats since this watch first saw it.
    """

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[str, int, float, bool]] = {}

    def is_alive(self, path: Path) -> bool:
        """Whether a live process holds a lease; True for an unreadable lease."""
        try:
            holder = read_lease(path)
        except OSError:
            return True
        return holder is not None and self.sign_of(path, holder) != "dead"

    def sign_of(self, path: Path, holder: Holder) -> Sign:
        """Return the state of a lease's holder, which `read_lease` has just returned."""
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
    """Return this process as a holder, for a lease that it is about to take."""
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
    """Return the path of the file of a holder's successor."""
    return path.with_name(f"{path.name}.{nonce}.after")


def _read(path: Path) -> Holder | None:
    # Opening the directory makes network file systems ask their server.
    with contextlib.suppress(OSError):
        os.close(os.open(path.parent, os.O_RDONLY))
    try:
        with open_regular(path) as file:
            if content := file.read(_MAX_BYTES):
                return _checked(Holder(**_HOLDER.checked(parse_json(content))))
            # A crash of the machine leaves an empty file, which has no live holder.
            left = os.fstat(file.fileno())
            return Holder("", "", 0, 0, nonce=f"empty-{left.st_ino}-{left.st_mtime_ns}")
    except FileNotFoundError:
        return None
    except OSError as error:
        # NFS raises this error if the file was replaced during the read.
        if error.errno == errno.ESTALE:
            return _read(path)
        raise
    except (ValueError, TypeError) as error:
        raise OSError(errno.EIO, f"is not a lease: {error}", str(path)) from error


def _checked(holder: Holder) -> Holder:
    """Check that a holder's nonce is valid in a file name, and return the holder."""
    if not _NONCE.fullmatch(holder.nonce):
        raise ValueError(f"nonce is {reprlib.repr(holder.nonce)}, expected a word")
    return holder

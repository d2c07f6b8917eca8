"""Which file systems other hosts see too, as the kernel lists them.

Example:
    >>> from tarmac.files import is_network
    >>> is_network("/proc")
    False
"""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import io

# As /proc/self/mountinfo names them. What comes by FUSE is named `fuse.NAME`, or `fuse` alone, and
# most is remote.
_NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse",
        "gfs",
        "gfs2",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb3",
        "smbfs",
        "virtiofs",
        "wekafs",
    }
)


def is_network(path: str | os.PathLike[str]) -> bool:
    """Whether a path is on a file system that other hosts may write too.

    Args:
        path: It, or the nearest directory above it that is there, is looked at.
    """
    return network_type(path) is not None


def mounts_seen() -> int:
    """Return how often this process has seen mounts change; another number, and all may differ."""
    try:
        return _mounts.look()[1]
    except OSError:
        return 0


def network_type(path: str | os.PathLike[str], mounts: Mounts | None = None) -> str | None:
    """Return a network file system's name, such as ``nfs4``; None where a path is on a local one.

    Args:
        path: It, or the nearest directory above it that is there, is looked at.
        mounts: What is mounted; by default what this process sees.
    """
    try:
        types, _ = (mounts or _mounts).look()
    except OSError:
        return None
    place = os.path.realpath(path)
    while place not in types and place != "/":
        place = place.rpartition("/")[0] or "/"
    fs_type = types.get(place, "")
    return fs_type if fs_type in _NETWORK or fs_type.startswith("fuse.") else None


class Mounts:
    """The kernel's list of what is mounted, which is read again once it has changed.

    The list is long on some machines, and whoever watches many runs asks often. Neither a path nor
    its device's number says that it is on the file system that it was on: numbers of those without
    a disk, which those of the network are, are given anew. The list itself tells: the kernel marks
    it, where it is kept open and polled, once anything was mounted or unmounted, as
    proc_pid_mountinfo(5) has it. So what is returned was so when it was asked for. A sandbox whose
    kernel marks nothing keeps what its process began with.

    Args:
        path: Kernel's list of mounts, in the format of proc_pid_mountinfo(5). Default
            ``/proc/self/mountinfo``.
    """

    def __init__(self, path: Path = Path("/proc/self/mountinfo")) -> None:
        self._path = path
        self._types: dict[str, str] = {}
        self._num_read = 0
        self.forget()

    def forget(self) -> None:
        """Open the list anew the next time: whoever shares an open one takes the other's marks."""
        self._lock = threading.Lock()
        self._poll: select.poll | None = None
        self._file: io.FileIO | None = None

    def look(self) -> tuple[dict[str, str], int]:
        """Return the file system at each place, and how often that was read.

        Raises:
            OSError: It cannot be read.
        """
        with self._lock:
            if self._file is None or self._poll is None:
                self._file = self._path.open("rb", buffering=0)
                self._poll = select.poll()
                self._poll.register(self._file, select.POLLPRI | select.POLLERR)
            elif not self._poll.poll(0):
                return self._types, self._num_read
            # The mark is gone before the list is read: of a change meanwhile there is another one.
            self._file.seek(0)
            content = self._file.readall() or b""
            self._types = _types_in(content.decode(errors="surrogateescape"))
            self._num_read += 1
            return self._types, self._num_read


def _types_in(mountinfo: str) -> dict[str, str]:
    """Return the file system at each place; of several on one the last covers the others."""
    types = {}
    for line in mountinfo.splitlines():
        mount, _, file_system = line.partition(" - ")
        types[_unescaped(mount.split(" ")[4])] = file_system.split(" ")[0]
    return types


def _unescaped(text: str) -> str:
    """Return a path as it is, where the kernel writes blanks and the like as octal numbers."""
    for escaped, meant in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escaped, meant)
    return text


_mounts = Mounts()
os.register_at_fork(after_in_child=_mounts.forget)

"""Detection of network file systems, from the kernel's list of mounts.

Example:
    >>> from tarmac.files import is_network
    >>> is_network("/proc")
    False
"""

from __future__ import annotations

import io
import os
import select
import threading
from pathlib import Path

# Names in /proc/self/mountinfo. A FUSE file system is named `fuse.NAME`, or `fuse` alone; most are
# remote.
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
        path: Path to check; a missing path counts as its nearest existing parent.
    """
    return network_type(path) is not None


def mounts_seen() -> int:
    """Return the number of reads of the mount list; a new number voids cached answers."""
    try:
        return _mounts.look()[1]
    except OSError:
        return 0


def network_type(path: str | os.PathLike[str], mounts: Mounts | None = None) -> str | None:
    """Return the type of a path's network file system, such as ``nfs4``; None for a local one.

    Args:
        path: Path to check; a missing path counts as its nearest existing parent.
        mounts: List of mounts. Default: the mounts that this process sees.
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
    """The kernel's list of mounts, read again only after a change.

    The list is long on some machines, and a monitor of many runs needs it often. A path or a device
    number cannot be cached alone: the kernel reuses device numbers of file systems without a disk,
    such as network file systems. The kernel reports any mount or unmount to a poll of the open
    list; see proc_pid_mountinfo(5). So each answer is current. Under a sandbox whose kernel reports
    nothing, the first list is kept.

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
        """Reopen the list at the next use; processes that share it miss each other's changes."""
        self._lock = threading.Lock()
        self._poll: select.poll | None = None
        self._file: io.FileIO | None = None

    def look(self) -> tuple[dict[str, str], int]:
        """Return the file system type at each mount point, and the number of reads of the list.

        Raises:
            OSError: The list cannot be read.
        """
        with self._lock:
            if self._file is None or self._poll is None:
                self._file = self._path.open("rb", buffering=0)
                self._poll = select.poll()
                self._poll.register(self._file, select.POLLPRI | select.POLLERR)
            elif not self._poll.poll(0):
                return self._types, self._num_read
            # The poll has cleared the report before the list is read: a later change gives another
            # report.
            self._file.seek(0)
            content = self._file.readall() or b""
            self._types = _types_in(content.decode(errors="surrogateescape"))
            self._num_read += 1
            return self._types, self._num_read


def _types_in(mountinfo: str) -> dict[str, str]:
    """Return the file system type at each mount point; the last mount of a point counts."""
    types = {}
    for line in mountinfo.splitlines():
        mount, _, file_system = line.partition(" - ")
        types[_unescaped(mount.split(" ")[4])] = file_system.split(" ")[0]
    return types


def _unescaped(text: str) -> str:
    """Decode the octal escapes that the kernel writes for blanks in a path."""
    for escaped, meant in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escaped, meant)
    return text


_mounts = Mounts()
os.register_at_fork(after_in_child=_mounts.forget)

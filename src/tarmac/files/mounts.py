"""Which file systems other hosts see too, as the kernel lists them.

Example:
    >>> from tarmac.files import is_network
    >>> is_network("/proc")
    False
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

__all__ = ["is_network", "network_type"]

# As /proc/self/mountinfo names them. What comes by FUSE is named `fuse.NAME`, and most is remote.
_NETWORK = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
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


def network_type(
    path: str | os.PathLike[str], mountinfo: Path = Path("/proc/self/mountinfo")
) -> str | None:
    """Return a network file system's name, such as ``nfs4``; None where a path is on a local one.

    Args:
        path: It, or the nearest directory above it that is there, is looked at.
        mountinfo: The kernel's list of what is mounted; see proc_pid_mountinfo(5).
    """
    try:
        types = _types_by_place(mountinfo.read_text(errors="surrogateescape"))
    except OSError:
        return None
    place = os.path.realpath(path)
    while place not in types and place != "/":
        place = place.rpartition("/")[0] or "/"
    found = types.get(place, "")
    return found if found in _NETWORK or found.startswith("fuse.") else None


# Whoever watches many runs asks often, and the list hardly ever changes.
@functools.lru_cache(maxsize=4)
def _types_by_place(mountinfo: str) -> dict[str, str]:
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

"""Which file systems other hosts see too, as the kernel lists them.

Example:
    >>> from tarmac.files import is_network
    >>> is_network("/proc")
    False
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

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
    resolved = Path(path).resolve()
    found, found_at = "", -1
    try:
        lines = mountinfo.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    for line in lines:
        mount, _, file_system = line.partition(" - ")
        at = Path(_unescaped(mount.split(" ")[4]))
        # Of several on one place the last covers the others.
        if resolved.is_relative_to(at) and len(at.parts) >= found_at:
            found, found_at = file_system.split(" ")[0], len(at.parts)
    is_remote = found in _NETWORK or found.startswith("fuse.")
    return found if is_remote else None


def _unescaped(text: str) -> str:
    """Return a path as it is, where the kernel writes blanks and the like as octal numbers."""
    for escaped, meant in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(escaped, meant)
    return text

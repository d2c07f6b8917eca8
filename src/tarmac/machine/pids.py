"""Check whether the driver's PIDs are valid in this process's PID namespace.

NVIDIA's driver reports PIDs of the host. In a container with its own PID namespace, such a PID
belongs to another process, or to none.
"""

from __future__ import annotations

from pathlib import Path

# The kernel's number of the host's PID namespace: PROC_PID_INIT_INO in include/linux/proc_ns.h.
_FIRST_NAMESPACE = "pid:[4026531836]"


def sees_all_processes(root: Path = Path("/")) -> bool:
    """Return whether this process has the host's PIDs, as with ``--pid=host``; False if unknown.

    Args:
        root: Directory with ``proc``; for tests.
    """
    try:
        return str((root / "proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False

"""Whether the numbers that the driver gives to processes are the ones that they have here.

NVIDIA's driver numbers processes as the machine does. In a container with numbers of its own, the
process that has such a number here is another one, or none.
"""

from __future__ import annotations

from pathlib import Path

# The kernel's number of the namespace that the machine starts with: PROC_PID_INIT_INO in
# include/linux/proc_ns.h.
_FIRST_NAMESPACE = "pid:[4026531836]"


def sees_all_processes(root: Path = Path("/")) -> bool:
    """Whether this process has the machine's numbers, as with ``--pid=host``; False if unknown.

    Args:
        root: Where ``proc`` is; for tests.
    """
    try:
        return str((root / "proc/self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False

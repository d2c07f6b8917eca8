"""Memory limits that the kernel enforces, where this process may make control groups.

The kernel kills a task in a control group of its own as soon as it exceeds its limit. Without a
group, the task runs until the next poll, and takes memory from other tasks meanwhile. Versions 1
and 2 are supported: https://docs.kernel.org/admin-guide/cgroup-v2.html and
.../cgroup-v1/memory.html.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from tarmac.control_groups import is_unified, own_groups
from tarmac.processes.handles import open_handles


class MemoryGroup:
    """A control group with a memory limit.

    Args:
        path: Existing directory of the control group.
        is_unified: Whether the group is of version 2.

    Attributes:
        path: Directory of the group; a process that writes 0 to ``cgroup.procs`` there joins it.
    """

    def __init__(self, path: Path, *, is_unified: bool) -> None:
        self.path = path
        self._is_unified = is_unified

    def join(self) -> None:
        """Make the calling process a member of the group.

        Raises:
            OSError: The process may not join the group.
        """
        # 0 stands for the writing process.
        (self.path / "cgroup.procs").write_text("0")

    def was_exceeded(self) -> bool:
        """Return whether the kernel has killed a process of the group for its memory."""
        name = "memory.events" if self._is_unified else "memory.oom_control"
        with contextlib.suppress(OSError):
            for line in (self.path / name).read_text().splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill":
                    return int(count) > 0
        return False

    def kill(self) -> None:
        """Send SIGKILL to all processes that are left in the group."""
        with open_handles(self._members) as members:
            for member in members:
                member.send(signal.SIGKILL)

    def _members(self) -> list[int]:
        with contextlib.suppress(OSError):
            return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]
        return []

    def remove(self) -> None:
        """Remove the group; do nothing where it still has processes."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def make_memory_group(name: str, limit_bytes: int) -> MemoryGroup | None:
    """Make a control group with a memory limit.

    Args:
        name: Name of the group, unique on this machine.
        limit_bytes: Memory limit of all its processes together, in bytes; includes swap where the
            kernel accounts for it.

    Returns:
        The group; None where this process may not make one.
    """
    parent = parent_of_groups()
    if parent is None:
        return None
    path, unified = parent / name, is_unified()
    try:
        path.mkdir()
        if unified:
            (path / "memory.max").write_text(str(limit_bytes))
            (path / "memory.oom.group").write_text("1")
            _write_if_there(path / "memory.swap.max", "0")
        else:
            (path / "memory.limit_in_bytes").write_text(str(limit_bytes))
            _write_if_there(path / "memory.memsw.limit_in_bytes", str(limit_bytes))
    except OSError:
        with contextlib.suppress(OSError):
            path.rmdir()
        return None
    return MemoryGroup(path, is_unified=unified)


def parent_of_groups() -> Path | None:
    """Return the group to make new ones in: this process's or an ancestor; None without one."""
    groups = own_groups("memory")
    if not is_unified():
        return groups[0] if groups and os.access(groups[0], os.W_OK) else None
    # In version 2, a group with processes of its own cannot have children with controllers.
    for group in groups:
        with contextlib.suppress(OSError):
            enabled = (group / "cgroup.subtree_control").read_text().split()
            if "memory" in enabled and os.access(group, os.W_OK):
                return group
    return None


def _write_if_there(path: Path, text: str) -> None:
    # Not every kernel accounts for swap.
    with contextlib.suppress(OSError):
        path.write_text(text)

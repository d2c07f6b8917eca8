"""Limits on memory that the kernel enforces, where this process may make control groups.

In a group of its own a task that takes too much is ended by the kernel at once, rather than when
it is next looked at, and takes nothing from its neighbours meanwhile. Both layouts are known:
https://docs.kernel.org/admin-guide/cgroup-v2.html and .../cgroup-v1/memory.html.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from tarmac.control_groups import is_unified, own_groups
from tarmac.processes.handles import open_handles

if TYPE_CHECKING:
    from pathlib import Path


class MemoryGroup:
    """A control group with a limit on memory.

    Args:
        path: Existing directory of the control group.
        is_unified: Whether it is of version 2.

    Attributes:
        path: The group's directory; a process that writes 0 to ``cgroup.procs`` there joins it.
    """

    def __init__(self, path: Path, *, is_unified: bool) -> None:
        self.path = path
        self._is_unified = is_unified

    def join(self) -> None:
        """Make the calling process a member.

        Raises:
            OSError: It cannot become one.
        """
        # 0 stands for the process that writes.
        (self.path / "cgroup.procs").write_text("0")

    def was_exceeded(self) -> bool:
        """Whether the kernel has ended a process of the group for its memory."""
        name = "memory.events" if self._is_unified else "memory.oom_control"
        with contextlib.suppress(OSError):
            for line in (self.path / name).read_text().splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill":
                    return int(count) > 0
        return False

    def kill(self) -> None:
        """Send SIGKILL to whatever is left in it."""
        with open_handles(self._members) as members:
            for member in members:
                member.send(signal.SIGKILL)

    def _members(self) -> list[int]:
        with contextlib.suppress(OSError):
            return [int(pid) for pid in (self.path / "cgroup.procs").read_text().split()]
        return []

    def remove(self) -> None:
        """Remove the group; processes of it that are not quite gone keep it for a while."""
        with contextlib.suppress(OSError):
            self.path.rmdir()


def make_memory_group(name: str, limit_bytes: int) -> MemoryGroup | None:
    """Make a group in which more memory than a limit cannot be had.

    Args:
        name: The group's, unique on this machine.
        limit_bytes: For all its processes together; swap counts as well where it is counted.

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
    """Return the group that a new one may be made in: this process's own, or the nearest above."""
    groups = own_groups("memory")
    if not is_unified():
        return groups[0] if groups and os.access(groups[0], os.W_OK) else None
    # In version 2 a group with processes of its own has no children with controllers.
    for group in groups:
        with contextlib.suppress(OSError):
            enabled = (group / "cgroup.subtree_control").read_text().split()
            if "memory" in enabled and os.access(group, os.W_OK):
                return group
    return None


def _write_if_there(path: Path, text: str) -> None:
    # Not every kernel counts swap.
    with contextlib.suppress(OSError):
        path.write_text(text)

"""Limits on memory that the kernel enforces, where this process may make control groups.

In a group of its own a task that takes too much is ended by the kernel at once, rather than when
it is next looked at, and takes nothing from its neighbours meanwhile. Both layouts are known:
https://docs.kernel.org/admin-guide/cgroup-v2.html and .../cgroup-v1/memory.html.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

__all__ = ["MemoryGroup", "make_memory_group"]

_ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group with a limit on memory.

    Args:
        path: Of the group.
        is_unified: Whether it is of version 2.
    """

    def __init__(self, path: Path, *, is_unified: bool) -> None:
        self._path = path
        self._is_unified = is_unified

    def add(self, pid: int) -> None:
        """Put a process into it, whose later children will be in it too."""
        # One that has ended already needs no limit.
        with contextlib.suppress(OSError):
            (self._path / "cgroup.procs").write_text(str(pid))

    def was_exceeded(self) -> bool:
        """Whether the kernel has ended a process of the group for its memory."""
        name = "memory.events" if self._is_unified else "memory.oom_control"
        with contextlib.suppress(OSError):
            for line in (self._path / name).read_text().splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill":
                    return int(count) > 0
        return False

    def kill(self) -> None:
        """Send SIGKILL to whatever is left in it."""
        with contextlib.suppress(OSError):
            for pid in (self._path / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)

    def remove(self) -> None:
        """Remove the group; processes of it that are not quite gone keep it for a while."""
        with contextlib.suppress(OSError):
            self._path.rmdir()


def make_memory_group(name: str, limit_bytes: int, root: Path = _ROOT) -> MemoryGroup | None:
    """Make a group in which more memory than a limit cannot be had.

    Args:
        name: The group's, unique on this machine.
        limit_bytes: For all its processes together; swap counts as well where it is counted.
        root: Where control groups are mounted.

    Returns:
        The group; None where this process may not make one.
    """
    is_unified = (root / "cgroup.controllers").exists()
    parent = _parent(root, is_unified=is_unified)
    if parent is None:
        return None
    path = parent / name
    try:
        path.mkdir()
        if is_unified:
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
    return MemoryGroup(path, is_unified=is_unified)


def _parent(root: Path, *, is_unified: bool) -> Path | None:
    """Return the group that a new one may be made in: this process's own, or the nearest above."""
    mounted = root if is_unified else root / "memory"
    own = _own_group("" if is_unified else "memory")
    if own is None or not mounted.is_dir():
        return None
    group = mounted / own.lstrip("/")
    # A container that sees only its part of the tree has its own group at the root.
    group = group if group.is_dir() else mounted
    if not is_unified:
        return group if os.access(group, os.W_OK) else None
    # In version 2 a group with processes of its own has no children with controllers.
    for candidate in (group, *group.parents):
        if not candidate.is_relative_to(mounted):
            return None
        with contextlib.suppress(OSError):
            enabled = (candidate / "cgroup.subtree_control").read_text().split()
            if "memory" in enabled and os.access(candidate, os.W_OK):
                return candidate
    return None


def _own_group(controller: str) -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                return path
    return None


def _write_if_there(path: Path, text: str) -> None:
    # Not every kernel counts swap.
    with contextlib.suppress(OSError):
        path.write_text(text)

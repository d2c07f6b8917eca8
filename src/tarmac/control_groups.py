"""The control groups of this process.

The module supports both layouts: https://docs.kernel.org/admin-guide/cgroup-v2.html and
https://docs.kernel.org/admin-guide/cgroup-v1/. It uses only the standard library, because the
agent takes it to nodes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_ROOT = Path("/")
_MOUNTED = "sys/fs/cgroup"


def is_unified(root: Path = _ROOT) -> bool:
    """Return whether control groups are version 2."""
    mounted = root / _MOUNTED
    return any((mounted / name).exists() for name in ("cgroup.controllers", "cpu.max"))


def own_groups(controller: str, root: Path = _ROOT) -> tuple[Path, ...]:
    """Return the directories of this process's control group and its ancestors, nearest first.

    Args:
        controller: Controller name of the kernel: ``memory``, ``cpu``.
        root: Directory that holds ``proc`` and ``sys``. Default ``/``.

    Returns:
        The directories; empty where no control groups are mounted.
    """
    mounted = root / _MOUNTED
    if not is_unified(root):
        mounted /= controller
    if not mounted.is_dir():
        return ()
    own = _own_path("" if is_unified(root) else controller, root)
    group = mounted / own.strip("/")
    # A container that sees only a part of the tree has its own group at the root.
    if ".." in group.parts or not group.is_dir():
        return (mounted,)
    above = (path for path in group.parents if path.is_relative_to(mounted))
    return tuple(dict.fromkeys((group, *above)))


def _own_path(controller: str, root: Path) -> str:
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(","):
                return path
    return "/"

"""How much of the machine this process may use: affinity, control groups, shared memory.

Both layouts are known: https://docs.kernel.org/admin-guide/cgroup-v2.html and
https://docs.kernel.org/admin-guide/cgroup-v1/. A group's limit holds for all groups in it, so the
smallest on the way up counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from pathlib import Path

__all__ = ["ProcessLimits", "is_unified", "own_groups", "read_limits"]

# Version 1 writes "no limit" as the largest number of pages (mm/page_counter.c), in bytes.
_UNLIMITED = 2**62

_ROOT = Path("/")
_MOUNTED = "sys/fs/cgroup"


@dataclasses.dataclass(frozen=True)
class ProcessLimits:
    """What a process may use.

    Attributes:
        cpus: Cores, by its affinity and its control groups' quotas; may be a part of one.
        memory_bytes: Of its control groups; None where they set no limit.
        shm_bytes: Size of /dev/shm; None where there is none.
    """

    cpus: float
    memory_bytes: int | None
    shm_bytes: int | None = None


def read_limits(root: Path = _ROOT) -> ProcessLimits:
    """Return this process's limits.

    Args:
        root: Where ``proc``, ``sys`` and ``dev`` are; the affinity is this process's in any case.
    """
    cpus = [float(_affinity())]
    for group in own_groups("cpu", root):
        quota, period = _quota(group, unified=is_unified(root))
        if quota is not None and period:
            cpus.append(quota / period)
    name = "memory.max" if is_unified(root) else "memory.limit_in_bytes"
    sizes = (_number(_text(group / name)) for group in own_groups("memory", root))
    limits = [size for size in sizes if size is not None and size < _UNLIMITED]
    return ProcessLimits(min(cpus), min(limits, default=None), _size_of(root / "dev/shm"))


def _affinity() -> int:
    # Linux alone says on which cores a process may run.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_unified(root: Path = _ROOT) -> bool:
    """Whether control groups are of version 2."""
    mounted = root / _MOUNTED
    return any((mounted / name).exists() for name in ("cgroup.controllers", "cpu.max"))


def own_groups(controller: str, root: Path = _ROOT) -> tuple[Path, ...]:
    """Return the directories of this process's control group and those above, the nearest first.

    Args:
        controller: As the kernel calls it: ``memory``, ``cpu``.
        root: Where ``proc`` and ``sys`` are.

    Returns:
        The directories; none where no control groups are mounted.
    """
    mounted = root / _MOUNTED
    if not is_unified(root):
        mounted /= controller
    if not mounted.is_dir():
        return ()
    own = _own_path("" if is_unified(root) else controller, root)
    group = mounted / own.strip("/")
    # A container that sees only its part of the tree has its own group at the root.
    if ".." in group.parts or not group.is_dir():
        return (mounted,)
    above = (path for path in group.parents if path.is_relative_to(mounted))
    return tuple(dict.fromkeys((group, *above)))


def _own_path(controller: str, root: Path) -> str:
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return "/"


def _quota(group: Path, *, unified: bool) -> tuple[int | None, int | None]:
    """Return the microseconds of CPU time in each period; None where there is no quota."""
    if unified:
        quota, _, period = (_text(group / "cpu.max") or "max").partition(" ")
        return _number(quota), _number(period)
    return (
        _number(_text(group / "cpu.cfs_quota_us")),
        _number(_text(group / "cpu.cfs_period_us")),
    )


def _size_of(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(path).total
    return None


def _number(text: str | None) -> int | None:
    """Return a count; None for ``max`` and -1, which stand for no limit."""
    return int(text) if text is not None and text.isdecimal() else None


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return None

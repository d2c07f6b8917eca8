"""The limits of this process: affinity, control groups, shared memory.

A control group's limit also holds for all groups in it, so the lowest limit on the path to the root
counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from pathlib import Path

from tarmac.control_groups import is_unified, own_groups

# Version 1 writes "no limit" as the largest number of pages (mm/page_counter.c), in bytes.
_UNLIMITED = 2**62

_ROOT = Path("/")


@dataclasses.dataclass(frozen=True)
class ProcessLimits:
    """The limits of a process.

    Attributes:
        cpus: Number of cores, by affinity and control groups' quotas; may be a fraction.
        memory_bytes: Lowest memory limit of its control groups, in bytes. None: no limit.
        shm_bytes: Size of /dev/shm; None where there is none.
    """

    cpus: float
    memory_bytes: int | None
    shm_bytes: int | None = None


def read_limits(root: Path = _ROOT) -> ProcessLimits:
    """Return this process's limits.

    Args:
        root: Directory with ``proc``, ``sys`` and ``dev``; the affinity is always this process's.
    """
    cpus = [float(len(usable_cores())), *cpu_quotas(root).values()]
    limits = memory_limits(root).values()
    return ProcessLimits(min(cpus), min(limits, default=None), _size_of(root / "dev/shm"))


def usable_cores() -> frozenset[int]:
    """Return the numbers of the cores that this process may run on."""
    # Only Linux reports the affinity.
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cpu_quotas(root: Path = _ROOT) -> dict[Path, float]:
    """Return the quota in cores of each control group of this process that has one.

    Args:
        root: Directory with ``proc`` and ``sys``.
    """
    quotas = {}
    for group in own_groups("cpu", root):
        quota, period = _quota(group, unified=is_unified(root))
        if quota is not None and period:
            quotas[group] = quota / period
    return quotas


def memory_limits(root: Path = _ROOT) -> dict[Path, int]:
    """Return the memory limit in bytes of each control group of this process that has one.

    Args:
        root: Directory with ``proc`` and ``sys``.
    """
    name = "memory.max" if is_unified(root) else "memory.limit_in_bytes"
    sizes = {group: _number(_text(group / name)) for group in own_groups("memory", root)}
    return {group: size for group, size in sizes.items() if size is not None and size < _UNLIMITED}


def _quota(group: Path, *, unified: bool) -> tuple[int | None, int | None]:
    """Return the microseconds of CPU time in each period, and the period; None without a quota."""
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

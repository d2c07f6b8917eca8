"""The host beside its GPUs: the cores and memory that this process may use.

Example:
    >>> reader = HostReader()
    >>> host = reader.read()
    >>> host.cpu_ratio is None  # Until there is an earlier reading.
    True
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tarmac.control_groups import is_unified, own_groups
from tarmac.machine.limits import cpu_quotas, memory_limits, usable_cores
from tarmac.machine.live import LiveHost


@dataclasses.dataclass(frozen=True)
class _Counted:
    """The cumulative counters of a reading.

    Attributes:
        used_s: Core-seconds in use, of all usable cores.
        possible_s: Core-seconds that could have been used.
        source: Source of the counters; readings of different sources are not compared.
        periods: All and throttled periods of each control group with a CPU quota.
    """

    used_s: float | None
    possible_s: float
    source: str
    periods: dict[Path, tuple[int, int]]


class HostReader:
    """A reader of this host's load.

    Args:
        root: Directory with the control groups' ``proc`` and ``sys``; the rest is this machine's.
        clock: Monotonic clock in seconds; for tests.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._name = socket.gethostname()
        self._last: _Counted | None = None

    def read(self) -> LiveHost:
        """Return the current values; ratios cover the time since the last reading."""
        quotas, cores = cpu_quotas(self._root), usable_cores()
        cpu_count = min([float(len(cores)), *quotas.values()])
        counted = self._count(quotas, cores, cpu_count)
        last, self._last = self._last, counted
        used, total = self._read_memory()
        return LiveHost(
            name=self._name,
            cpu_count=cpu_count,
            cpu_ratio=None if last is None else _share_in_use(last, counted),
            load_1m=_load(),
            memory_used_bytes=used,
            memory_total_bytes=total,
            throttled_ratio=None if last is None else _share_throttled(last, counted),
        )

    def _count(
        self, quotas: dict[Path, float], cores: frozenset[int], cpu_count: float
    ) -> _Counted:
        periods = {group: counters for group in quotas if (counters := _periods(group)) is not None}
        if quotas and cpu_count < len(cores):
            tightest = min(quotas, key=lambda group: quotas[group])
            used_s = self._group_seconds(tightest)
            if used_s is not None:
                return _Counted(used_s, self._clock() * cpu_count, str(tightest), periods)
        used_s, possible_s = _core_seconds(cores)
        return _Counted(used_s, possible_s, f"cores {sorted(cores)}", periods)

    def _group_seconds(self, group: Path) -> float | None:
        """Return the core-seconds that a control group has used."""
        used_us = _numbers(group / "cpu.stat").get("usage_usec")
        if used_us is not None:
            return used_us / 1e6
        # Version 1 counts in a separate tree of the same form.
        groups = own_groups("cpu", self._root), own_groups("cpuacct", self._root)
        if group not in groups[0] or len(groups[0]) != len(groups[1]):
            return None
        text = _text(groups[1][groups[0].index(group)] / "cpuacct.usage")
        return int(text) / 1e9 if text.isdecimal() else None

    def _read_memory(self) -> tuple[int, int]:
        """Return the used and total bytes, of the control group if it has a limit."""
        memory = psutil.virtual_memory()
        limits = memory_limits(self._root)
        tightest = min(limits, key=lambda group: limits[group], default=None)
        if tightest is not None and limits[tightest] < memory.total:
            unified = is_unified(self._root)
            held = _text(tightest / ("memory.current" if unified else "memory.usage_in_bytes"))
            # The kernel frees the cache of inactive files when memory is needed.
            name = "inactive_file" if unified else "total_inactive_file"
            spare = _numbers(tightest / "memory.stat").get(name, 0)
            if held.isdecimal():
                return max(0, int(held) - spare), limits[tightest]
        return memory.total - memory.available, memory.total


def _share_in_use(last: _Counted, now: _Counted) -> float | None:
    possible_s = now.possible_s - last.possible_s
    if last.source != now.source or last.used_s is None or now.used_s is None or possible_s <= 0:
        return None
    return min(1.0, max(0.0, (now.used_s - last.used_s) / possible_s))


def _share_throttled(last: _Counted, now: _Counted) -> float | None:
    """Return the share of throttled periods, of the group with the largest share."""
    shares = []
    for group, (periods, throttled) in now.periods.items():
        before = last.periods.get(group)
        if before is None:
            continue
        # The kernel does not count idle periods, so none may have passed.
        passed = periods - before[0]
        shares.append(min(1.0, max(0.0, (throttled - before[1]) / passed)) if passed > 0 else 0.0)
    return max(shares, default=None)


def _core_seconds(cores: frozenset[int]) -> tuple[float | None, float]:
    """Return the core-seconds in use, and those that could have been used."""
    try:
        every = psutil.cpu_times(percpu=True)
    except (OSError, psutil.Error):
        return None, 0.0
    used = possible = 0.0
    for core, times in enumerate(every):
        if core in cores:
            # The time of guests is in ``user`` and ``nice`` too.
            guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
            total = sum(times) - guests
            possible += total
            used += total - times.idle - getattr(times, "iowait", 0.0)
    return used, possible


def _periods(group: Path) -> tuple[int, int] | None:
    counts = _numbers(group / "cpu.stat")
    if "nr_periods" not in counts:
        return None
    return counts["nr_periods"], counts.get("nr_throttled", 0)


def _numbers(path: Path) -> dict[str, int]:
    """Return the numbers of a file with a name and a number in each line."""
    lines = (line.split() for line in _text(path).splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdecimal()}


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None

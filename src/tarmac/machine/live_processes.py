"""The processes on a GPU or MIG slice, and the share of it that each kept busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pynvml

from tarmac.machine.live import LiveProcess
from tarmac.machine.nvml_calls import ask_running

_EVERY_S = 2.0
_REFUSED_S = 60.0

_KINDS = {"Compute": "compute", "MPSCompute": "compute", "Graphics": "graphics"}


class ProcessReader:
    """A reader of a GPU's processes, which caches them for two seconds.

    Args:
        handle: NVML handle of the GPU or slice.
        sees_all: Whether the driver's PIDs are valid in this process's PID namespace.
        clock: Monotonic clock in seconds; for tests.
    """

    def __init__(
        self, handle: Any, *, sees_all: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handle = handle
        self._sees_all = sees_all
        self._clock = clock
        self._read_at = float("-inf")
        self._found: tuple[LiveProcess, ...] = ()
        # Time at which the driver refused a list, or the shares; queried again after a minute.
        self._refused_at: dict[str, float] = {}
        self._seen_until_us = 0

    def read(self) -> tuple[LiveProcess, ...]:
        """Return the processes, sorted by the driver's PID."""
        now = self._clock()
        if now - self._read_at >= _EVERY_S:
            self._read_at = now
            self._found = self._look(now)
        return self._found

    def _look(self, now: float) -> tuple[LiveProcess, ...]:
        kinds: dict[int, set[str]] = {}
        memory: dict[int, int | None] = {}
        for kind, name in _KINDS.items():
            if self._is_refused(kind, now):
                continue
            running = ask_running(self._handle, kind)
            if running is None:
                self._refused_at[kind] = now
            for process in running or ():
                kinds.setdefault(process.pid, set()).add(name)
                # A process in two lists has the same memory in both.
                memory[process.pid] = process.usedGpuMemory or memory.get(process.pid)
        shares = self._read_shares(now) if kinds else None
        return tuple(
            LiveProcess(
                pid=pid if self._sees_all else None,
                driver_pid=pid,
                kind="both" if len(kinds[pid]) > 1 else min(kinds[pid]),
                memory_bytes=memory[pid],
                # The driver's answer leaves out idle processes.
                sm_ratio=None if shares is None else shares.get(pid, 0.0),
            )
            for pid in sorted(kinds)
        )

    def _read_shares(self, now: float) -> dict[int, float] | None:
        """Return the share of multiprocessors that each process used since the last reading."""
        if self._is_refused("shares", now):
            return None
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen_until_us)
        except pynvml.NVMLError_NotFound:
            # Nothing ran since then.
            return {}
        except pynvml.NVMLError:
            self._refused_at["shares"] = now
            return None
        newest: dict[int, tuple[int, float]] = {}
        for sample in samples:
            # Drivers sometimes return impossible values, and entries without a process.
            if sample.smUtil > 100 or sample.timeStamp <= self._seen_until_us:
                continue
            if sample.timeStamp >= newest.get(sample.pid, (0, 0.0))[0]:
                newest[sample.pid] = (sample.timeStamp, sample.smUtil / 100)
        times = [at for at, _ in newest.values()]
        self._seen_until_us = max(times, default=self._seen_until_us)
        return {pid: share for pid, (_, share) in newest.items()}

    def _is_refused(self, what: str, now: float) -> bool:
        return now - self._refused_at.get(what, float("-inf")) < _REFUSED_S

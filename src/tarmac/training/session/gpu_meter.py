"""The energy and throttling of a GPU since a training began, from counters that began earlier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.machine import LiveGpu


class GpuMeter:
    """A converter of one GPU's readings to rows of a training's samples.

    Energy comes from the GPU's counter. For a GPU without a counter, it is power times the time
    between two readings.

    Args:
        counted: ``energy_joules`` and ``throttled_s`` of the training's earlier sessions.
    """

    def __init__(self, counted: Mapping[str, Any]) -> None:
        energy, throttled = counted.get("energy_joules"), counted.get("throttled_s")
        self._energy: float | None = energy if isinstance(energy, int | float) else None
        self._throttled: dict[str, float] = dict(throttled) if isinstance(throttled, dict) else {}
        self._last: tuple[float, LiveGpu] | None = None

    def row(self, at_s: float, gpu: LiveGpu) -> dict[str, Any]:
        """Return a reading's values by name; None for unknown values.

        Args:
            at_s: Time of the reading, in seconds.
            gpu: Reading of the GPU's counters; without values if it failed.
        """
        if gpu.error is not None:
            return {}
        if self._last is not None:
            self._count(at_s, gpu, *self._last)
        elif gpu.energy_joules is not None or gpu.power_watts is not None:
            self._energy = self._energy or 0.0
        for name in gpu.throttled_s:
            self._throttled.setdefault(name, 0.0)
        self._last = (at_s, gpu)
        return {
            "utilization_ratio": gpu.utilization_ratio,
            "tensor_ratio": gpu.tensor_ratio,
            "memory_used_bytes": gpu.memory_used_bytes,
            "power_watts": gpu.power_watts,
            "temperature_c": gpu.temperature_c,
            "sm_clock_mhz": gpu.sm_clock_mhz,
            "energy_joules": self._energy,
            "throttle_reasons": list(gpu.throttle_reasons),
            "throttled_s": dict(self._throttled) or None,
        }

    def _count(self, at_s: float, gpu: LiveGpu, last_at_s: float, last: LiveGpu) -> None:
        used: float | None = None
        if gpu.energy_joules is not None and last.energy_joules is not None:
            used = gpu.energy_joules - last.energy_joules
        elif gpu.power_watts is not None and last.power_watts is not None:
            used = (gpu.power_watts + last.power_watts) / 2 * (at_s - last_at_s)
        # A counter that has decreased was reset with the driver.
        if used is not None and used >= 0:
            self._energy = (self._energy or 0.0) + used
        for name, seconds in gpu.throttled_s.items():
            passed = seconds - last.throttled_s.get(name, seconds)
            self._throttled[name] = self._throttled.get(name, 0.0) + max(passed, 0.0)

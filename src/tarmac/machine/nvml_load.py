"""A GPU while it computes: what is read of it every tenth of a second, in as few calls as can be.

An idle GPU costs one call, one that computes six, and one more where it knows its thermal margin,
or where the driver does not know power as a field. `bench/nvml_sampling.py` counts them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pynvml

from tarmac.machine.nvml_ask import SLOWDOWNS, ask, ask_fields, ask_reasons, watts

_IDLE = pynvml.nvmlClocksEventReasonGpuIdle

# Set by people, not by a limit that the GPU has reached.
_REASONS = {
    **SLOWDOWNS,
    "application_clocks": pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "display_clocks": pynvml.nvmlClocksEventReasonDisplayClockSetting,
}

_POWER = pynvml.NVML_FI_DEV_POWER_INSTANT
_MEMORY_TEMPERATURE = pynvml.NVML_FI_DEV_MEMORY_TEMP
_CORRECTED = pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL
_UNCORRECTED = pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL
_REPLAYS = pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER


@dataclasses.dataclass(frozen=True)
class LoadSample:
    """A GPU at one moment of its work; None stands for what it does not tell.

    Attributes:
        reasons: Why clocks are what they are: those of `Gpu.slowdowns`, ``application_clocks``,
            ``sync_boost``, ``display_clocks``.
        temperature_margin_c: Degrees up to the highest temperature it is made to work at.
    """

    reasons: frozenset[str]
    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    temperature_margin_c: int | None = None
    memory_temperature_c: int | None = None
    power_watts: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None


@dataclasses.dataclass(frozen=True)
class Counters:
    """What only grows: errors since the driver was loaded, and time that a limit held clocks back.

    Attributes:
        errors: ``corrected_errors``, ``uncorrected_errors``, ``pcie_replays``, of those that it
            counts.
        held_back_s: Seconds below the clocks that were asked for, by ``power`` and by ``thermal``.
    """

    errors: dict[str, int]
    held_back_s: dict[str, float]


class LoadReader:
    """Reads one GPU."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._has_margin = hasattr(pynvml, "nvmlDeviceGetMarginTemperature")

    def sample(self) -> LoadSample | None:
        """Return the GPU as it is now; None while nothing computes on it, or it does not say."""
        mask = ask_reasons(self._handle)
        if mask is None or mask & _IDLE:
            return None
        fields = ask_fields(self._handle, (_POWER, _MEMORY_TEMPERATURE))
        power = fields.get(_POWER)
        if power is None:
            power = ask(pynvml.nvmlDeviceGetPowerUsage, self._handle)
        return LoadSample(
            reasons=frozenset(name for name, bit in _REASONS.items() if mask & bit),
            sm_clock_mhz=ask(pynvml.nvmlDeviceGetClockInfo, self._handle, pynvml.NVML_CLOCK_SM),
            temperature_c=ask(
                pynvml.nvmlDeviceGetTemperature, self._handle, pynvml.NVML_TEMPERATURE_GPU
            ),
            temperature_margin_c=self._margin(),
            memory_temperature_c=fields.get(_MEMORY_TEMPERATURE),
            power_watts=watts(power),
            pcie_generation=ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration, self._handle),
            pcie_width=ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth, self._handle),
        )

    def counters(self) -> Counters:
        """Return what has been counted until now."""
        fields = ask_fields(self._handle, (_CORRECTED, _UNCORRECTED, _REPLAYS))
        names = {
            "corrected_errors": _CORRECTED,
            "uncorrected_errors": _UNCORRECTED,
            "pcie_replays": _REPLAYS,
        }
        policies = {
            "power": pynvml.NVML_PERF_POLICY_POWER,
            "thermal": pynvml.NVML_PERF_POLICY_THERMAL,
        }
        held = {
            name: ask(pynvml.nvmlDeviceGetViolationStatus, self._handle, policy)
            for name, policy in policies.items()
        }
        return Counters(
            errors={name: int(fields[field]) for name, field in names.items() if field in fields},
            held_back_s={
                name: status.violationTime / 1e9
                for name, status in held.items()
                if status is not None
            },
        )

    def _margin(self) -> int | None:
        if not self._has_margin:
            return None
        margin: int | None = ask(pynvml.nvmlDeviceGetMarginTemperature, self._handle)
        # Cards and drivers that do not tell it are asked once.
        self._has_margin = margin is not None
        return margin

"""Samples of a GPU while it computes, every tenth of a second, in as few calls as possible.

An idle GPU costs one call, a computing GPU six. One more call is needed if the GPU has a thermal
margin, or if the driver does not have power as a field. `bench/nvml_sampling.py` counts the calls.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pynvml

from tarmac.machine.nvml_calls import POLICIES, SLOWDOWNS, ask, ask_fields, names_of, watts

_IDLE = pynvml.nvmlClocksEventReasonGpuIdle

# The last three are set by users, not by a limit that the GPU has reached.
_REASONS = {
    **SLOWDOWNS,
    "application_clocks": pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "display_clocks": pynvml.nvmlClocksEventReasonDisplayClockSetting,
}

_POWER = pynvml.NVML_FI_DEV_POWER_INSTANT
_MEMORY_TEMPERATURE = pynvml.NVML_FI_DEV_MEMORY_TEMP
_COUNTERS = {
    "corrected_errors": pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
    "uncorrected_errors": pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
    "pcie_replays": pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
}


@dataclasses.dataclass(frozen=True)
class LoadSample:
    """A GPU at one moment of its work; None stands for unknown values.

    Attributes:
        reasons: Reasons for the current clocks: those of `Gpu.slowdowns`, ``application_clocks``,
            ``sync_boost``, ``display_clocks``.
        temperature_margin_c: Degrees Celsius up to the highest operating temperature.
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
    """Counters since the driver was loaded: errors, and time in which a limit lowered the clocks.

    Attributes:
        errors: Numbers of ``corrected_errors``, ``uncorrected_errors`` and ``pcie_replays``, if
            the GPU counts them.
        held_back_s: Seconds below the requested clocks, by ``power`` and by ``thermal``.
    """

    errors: dict[str, int]
    held_back_s: dict[str, float]


class LoadReader:
    """A reader of one GPU's load."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._has_margin = hasattr(pynvml, "nvmlDeviceGetMarginTemperature")

    def sample(self) -> LoadSample | None:
        """Return a sample of the GPU; None while it is idle, or does not report its state."""
        mask = ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self._handle)
        if mask is None or mask & _IDLE:
            return None
        fields = ask_fields(self._handle, (_POWER, _MEMORY_TEMPERATURE))
        power = fields.get(_POWER)
        if power is None:
            power = ask(pynvml.nvmlDeviceGetPowerUsage, self._handle)
        return LoadSample(
            reasons=frozenset(names_of(mask, _REASONS)),
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
        """Return the current counters."""
        fields = ask_fields(self._handle, [*_COUNTERS.values()])
        held = {
            name: ask(pynvml.nvmlDeviceGetViolationStatus, self._handle, policy)
            for name, policy in POLICIES.items()
        }
        return Counters(
            errors={name: int(fields[key]) for name, key in _COUNTERS.items() if key in fields},
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
        # Query cards and drivers without a margin only once.
        self._has_margin = margin is not None
        return margin

"""Repeated readings of an NVIDIA GPU, in as few calls as possible.

Constant values are read once, slow values every five seconds, processes every two seconds. One call
reads several values where possible. A query that a card does not support is not repeated for a
minute. `bench/top.py` measures the cost.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pynvml

from tarmac.machine.live import LiveGpu
from tarmac.machine.live_gpm import TensorReader
from tarmac.machine.live_processes import ProcessReader
from tarmac.machine.nvml_calls import (
    POLICIES,
    ask,
    known,
    names_of,
    pci_address,
    read_field,
    watts,
)

_SLOW_S = 5.0
_REFUSED_S = 60.0

_FAST_FIELDS = {
    "power": pynvml.NVML_FI_DEV_POWER_INSTANT,
    "memory_temperature": pynvml.NVML_FI_DEV_MEMORY_TEMP,
    "energy": pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
    "held_power": pynvml.NVML_FI_DEV_PERF_POLICY_POWER,
    "held_thermal": pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL,
}
_SLOW_FIELDS = {
    "corrected": pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL,
    "uncorrected": pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL,
    "remapped_corrected": pynvml.NVML_FI_DEV_REMAPPED_COR,
    "remapped_uncorrected": pynvml.NVML_FI_DEV_REMAPPED_UNC,
}

# An unsupported or forbidden query says nothing about a card's state.
_REFUSALS = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_InvalidArgument,
    pynvml.NVMLError_ArgumentVersionMismatch,
)
_REFUSED_FIELDS = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NO_PERMISSION,
)
# After these errors all calls fail.
_ENDS = (
    pynvml.NVMLError_GpuIsLost,
    pynvml.NVMLError_ResetRequired,
    pynvml.NVMLError_Uninitialized,
    pynvml.NVMLError_DriverNotLoaded,
    pynvml.NVMLError_LibRmVersionMismatch,
)


@dataclasses.dataclass(frozen=True)
class _Part:
    """The whole GPU or a slice, with its constant values."""

    handle: Any
    gpu: LiveGpu
    processes: ProcessReader


class NvmlCard:
    """A reader of one GPU and its slices, for a single thread.

    Args:
        index: Driver's index of the GPU, which ``CUDA_VISIBLE_DEVICES`` does not change.
        sees_all: Whether the driver's PIDs are valid in this process's PID namespace.
        clock: Monotonic clock in seconds; for tests.
    """

    def __init__(
        self, index: int, *, sees_all: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._index = index
        self._sees_all = sees_all
        self._clock = clock
        self._handle: Any = None
        self._whole: _Part | None = None
        self._tensor: TensorReader | None = None
        self._slices: tuple[_Part, ...] = ()
        self._slow: dict[str, Any] = {}
        self._slow_at = self._refused_at = float("-inf")
        self._refused: set[object] = set()
        self._trouble: pynvml.NVMLError | None = None

    def read(self, details: bool = False) -> tuple[LiveGpu, ...]:
        """Return the GPU, and its slices if it is partitioned.

        Args:
            details: Whether to read PCIe's throughput too, which takes 40 ms. Default False.

        Raises:
            pynvml.NVMLError: The GPU cannot be read.
        """
        try:
            return self._read(details)
        except pynvml.NVMLError:
            # The handle may be invalid after an error of its GPU.
            self._whole = None
            raise

    def _read(self, details: bool) -> tuple[LiveGpu, ...]:
        now = self._clock()
        self._trouble = None
        if now - self._refused_at >= _REFUSED_S:
            self._refused_at = now
            self._refused = set()
        if self._whole is None:
            self._whole = self._identify()
            self._slow_at = float("-inf")
        whole = self._whole
        fast = self._read_fast()
        if self._trouble is not None and not {"utilization_ratio", "temperature_c"} & fast.keys():
            raise self._trouble
        if now - self._slow_at >= _SLOW_S:
            self._slow_at = now
            self._slow = self._read_slow()
            self._slices = self._find_slices(whole)
        throttled_s = {**self._slow["throttled_s"], **fast["throttled_s"]}
        values = {**self._slow, **fast, "throttled_s": throttled_s}
        if details:
            values |= self._read_throughput()
        slices = tuple(self._read_slice(part) for part in self._slices)
        of_slices = {process.driver_pid for part in slices for process in part.processes}
        processes = tuple(
            process for process in whole.processes.read() if process.driver_pid not in of_slices
        )
        return (dataclasses.replace(whole.gpu, processes=processes, **values), *slices)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the answer of a query; None if there is none, unless the GPU is lost."""
        question = (function, arguments)
        if question in self._refused:
            return None
        try:
            return function(self._handle, *arguments)
        except _REFUSALS:
            self._refused.add(question)
        except _ENDS:
            raise
        except pynvml.NVMLError as error:
            self._trouble = self._trouble or error
        return None

    def _ask_fields(self, fields: dict[str, int]) -> dict[str, int]:
        wanted = {name: field for name, field in fields.items() if field not in self._refused}
        if not wanted:
            return {}
        answers = self._ask(pynvml.nvmlDeviceGetFieldValues, tuple(wanted.values()))
        if answers is None:
            return {}
        self._refused.update(
            answer.fieldId for answer in answers if answer.nvmlReturn in _REFUSED_FIELDS
        )
        values = {name: read_field(answer) for name, answer in zip(wanted, answers, strict=True)}
        return {name: int(value) for name, value in values.items() if value is not None}

    def _identify(self) -> _Part:
        self._handle = handle = pynvml.nvmlDeviceGetHandleByIndex(self._index)
        gpu = LiveGpu(
            index=self._index,
            name=pynvml.nvmlDeviceGetName(handle),
            uuid=pynvml.nvmlDeviceGetUUID(handle),
            pci_address=pci_address(self._ask(pynvml.nvmlDeviceGetPciInfo)),
            max_sm_clock_mhz=self._ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
            max_pcie_generation=self._ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
            max_pcie_width=self._ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth),
        )
        if self._tensor is not None:
            self._tensor.close()
        self._tensor = TensorReader(handle)
        return _Part(handle, gpu, self._processes_on(handle))

    def _processes_on(self, handle: Any) -> ProcessReader:
        return ProcessReader(handle, sees_all=self._sees_all, clock=self._clock)

    def _read_fast(self) -> dict[str, Any]:
        assert self._tensor is not None
        fields = self._ask_fields(_FAST_FIELDS)
        utilization = self._ask(pynvml.nvmlDeviceGetUtilizationRates)
        memory = self._ask(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2)
        if memory is None:
            memory = self._ask(pynvml.nvmlDeviceGetMemoryInfo)
        power, energy = fields.get("power"), fields.get("energy")
        if power is None:
            power = self._ask(pynvml.nvmlDeviceGetPowerUsage)
        if energy is None:
            energy = self._ask(pynvml.nvmlDeviceGetTotalEnergyConsumption)
        reasons = self._ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0
        held = {
            name.removeprefix("held_"): nanoseconds / 1e9
            for name, nanoseconds in fields.items()
            if name.startswith("held_")
        }
        return known(
            utilization_ratio=None if utilization is None else _ratio(utilization.gpu),
            memory_utilization_ratio=None if utilization is None else _ratio(utilization.memory),
            tensor_ratio=self._tensor.read(),
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            power_watts=watts(power),
            temperature_c=_number(
                self._ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)
            ),
            memory_temperature_c=_number(fields.get("memory_temperature")),
            sm_clock_mhz=self._ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            energy_joules=None if energy is None else energy / 1000,
            throttle_reasons=names_of(reasons),
            throttled_s=held,
        )

    def _read_slow(self) -> dict[str, Any]:
        fields = self._ask_fields(_SLOW_FIELDS)
        remaps = [fields[name] for name in fields if name.startswith("remapped")]
        held: dict[str, float] = {}
        for name, policy in POLICIES.items():
            # Fall back to this query if the field is not supported.
            if _FAST_FIELDS[f"held_{name}"] in self._refused:
                status = self._ask(pynvml.nvmlDeviceGetViolationStatus, policy)
                held |= {} if status is None else {name: status.violationTime / 1e9}
        return known(
            power_limit_watts=watts(self._ask(pynvml.nvmlDeviceGetEnforcedPowerLimit)),
            fan_ratio=_ratio(self._ask(pynvml.nvmlDeviceGetFanSpeed)),
            memory_clock_mhz=self._ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
            pcie_generation=self._ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
            pcie_width=self._ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
            corrected_errors=fields.get("corrected"),
            uncorrected_errors=fields.get("uncorrected"),
            row_remaps=sum(remaps) if remaps else self._count_remaps(),
            throttled_s=held,
        )

    def _count_remaps(self) -> int | None:
        rows = self._ask(pynvml.nvmlDeviceGetRemappedRows)
        return None if rows is None else int(rows[0] + rows[1])

    def _read_throughput(self) -> dict[str, Any]:
        sent = self._ask(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_TX_BYTES)
        received = self._ask(pynvml.nvmlDeviceGetPcieThroughput, pynvml.NVML_PCIE_UTIL_RX_BYTES)
        # The library counts in KiB.
        return known(
            pcie_sent_bytes_per_s=None if sent is None else sent * 1024.0,
            pcie_received_bytes_per_s=None if received is None else received * 1024.0,
        )

    def _find_slices(self, whole: _Part) -> tuple[_Part, ...]:
        mode = self._ask(pynvml.nvmlDeviceGetMigMode)
        if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return ()
        kept = {part.gpu.uuid: part for part in self._slices}
        slices = []
        for number in range(self._ask(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
            # Not every number has a slice, and a container may not see all slices.
            try:
                handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(whole.handle, number)
                uuid = pynvml.nvmlDeviceGetUUID(handle)
            except _ENDS:
                raise
            except pynvml.NVMLError:
                continue
            gpu = LiveGpu(
                index=self._index,
                uuid=uuid,
                name=ask(pynvml.nvmlDeviceGetName, handle) or "MIG slice",
                parent_uuid=whole.gpu.uuid,
                pci_address=whole.gpu.pci_address,
            )
            slices.append(kept.get(uuid) or _Part(handle, gpu, self._processes_on(handle)))
        return tuple(slices)

    def _read_slice(self, part: _Part) -> LiveGpu:
        # NVML does not report the utilization of a slice.
        try:
            memory = pynvml.nvmlDeviceGetMemoryInfo(part.handle)
        except _ENDS:
            raise
        except pynvml.NVMLError:
            memory = None
        return dataclasses.replace(
            part.gpu,
            memory_used_bytes=None if memory is None else int(memory.used),
            memory_total_bytes=None if memory is None else int(memory.total),
            processes=part.processes.read(),
        )


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _ratio(percent: float | None) -> float | None:
    # Drivers sometimes return impossible values.
    return None if percent is None or not 0 <= percent <= 100 else percent / 100

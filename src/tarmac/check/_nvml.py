"""NVIDIA's GPUs as the driver's management library describes them; `nvidia-smi` is not needed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psutil
import pynvml

from tarmac.check._evidence import Gpu, GpuProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Nvml", "gpus_of_process", "open_nvml", "read_gpus"]

_SLOWDOWNS = {
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "sw_thermal": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "hw_thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}

_COMPUTE_MODES = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive process",
}


class Nvml:
    """The started library.

    Attributes:
        version: The driver's.
        cuda: The newest CUDA version that the driver runs, ``13.0``.
    """

    def __init__(self) -> None:
        self.version: str | None = _ask(pynvml.nvmlSystemGetDriverVersion)
        cuda = _ask(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        self.cuda = None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}"


@contextlib.contextmanager
def open_nvml() -> Iterator[Nvml | str]:
    """Start the library; yield why it does not start where it does not, in its own words."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        yield f"NVML: {error}"
        return
    try:
        yield Nvml()
    finally:
        # What is lost by now was lost before.
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def read_gpus() -> tuple[Gpu, ...]:
    """Describe all GPUs; the library must be open."""
    return tuple(_read_gpu(index) for index in range(_ask(pynvml.nvmlDeviceGetCount) or 0))


def gpus_of_process(pid: int) -> set[int]:
    """Return the indices of the GPUs that a process or its children compute on."""
    pids = {pid}
    with contextlib.suppress(psutil.Error):
        pids |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
    found = set()
    for index in range(_ask(pynvml.nvmlDeviceGetCount) or 0):
        handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
        running = handle and _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle)
        if any(process.pid in pids for process in running or ()):
            found.add(index)
    return found


def _read_gpu(index: int) -> Gpu:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        name = pynvml.nvmlDeviceGetName(handle)
    except pynvml.NVMLError as error:
        return Gpu(index=index, error=str(error))

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        return _ask(function, handle, *arguments)

    memory = ask(pynvml.nvmlDeviceGetMemoryInfo)
    capability = ask(pynvml.nvmlDeviceGetCudaComputeCapability)
    mig = ask(pynvml.nvmlDeviceGetMigMode)
    return Gpu(
        index=index,
        name=name,
        uuid=ask(pynvml.nvmlDeviceGetUUID),
        address=_address(ask(pynvml.nvmlDeviceGetPciInfo)),
        memory_bytes=None if memory is None else memory.total,
        used_bytes=None if memory is None else memory.used,
        capability=None if capability is None else tuple(capability),
        pcie=_known(
            generation=ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
            width=ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
            max_generation=ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
            max_width=ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth),
        ),
        nvlinks=_nvlinks(ask),
        ecc=_flag((ask(pynvml.nvmlDeviceGetEccMode) or (None,))[0]),
        uncorrected_errors=ask(
            pynvml.nvmlDeviceGetTotalEccErrors,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        remap_failed=_remapped(ask, failed=True),
        retired_pages_pending=_remapped(ask, failed=False),
        sm_clock_mhz=_known(
            now=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            max=ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        ),
        slowdowns=_slowdowns(ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0),
        power_watts=_known(
            now=_watts(ask(pynvml.nvmlDeviceGetPowerUsage)),
            limit=_watts(ask(pynvml.nvmlDeviceGetEnforcedPowerLimit)),
        ),
        temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        utilization=getattr(ask(pynvml.nvmlDeviceGetUtilizationRates), "gpu", None),
        persistence=_flag(ask(pynvml.nvmlDeviceGetPersistenceMode)),
        compute_mode=_COMPUTE_MODES.get(ask(pynvml.nvmlDeviceGetComputeMode)),
        mig=None if mig is None else bool(mig[0]),
        mig_devices=_mig_devices(ask) if mig is not None and mig[0] else (),
        processes=_processes(ask),
    )


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the library; None where the card or the driver does not know the answer."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _address(pci: Any) -> str | None:
    if pci is None:
        return None
    text = pci.busId if isinstance(pci.busId, str) else pci.busId.decode()
    # NVML writes the domain with eight digits, the kernel with four.
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _known(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _slowdowns(mask: int) -> tuple[str, ...]:
    return tuple(name for name, bit in _SLOWDOWNS.items() if mask & bit)


def _nvlinks(ask: Callable[..., Any]) -> tuple[bool, ...]:
    states = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = ask(pynvml.nvmlDeviceGetNvLinkState, link)
        if state is None:
            break
        states.append(bool(state))
    return tuple(states)


def _remapped(ask: Callable[..., Any], *, failed: bool) -> bool | None:
    """Whether memory rows, or pages before Ampere, failed to be replaced or wait for it."""
    rows = ask(pynvml.nvmlDeviceGetRemappedRows)
    if rows is not None:
        _, _, is_pending, has_failed = rows
        return bool(has_failed if failed else is_pending)
    return None if failed else _flag(ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus))


def _mig_devices(ask: Callable[..., Any]) -> tuple[str, ...]:
    found = []
    for number in range(ask(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
        device = ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, number)
        if device is not None:
            found.append(str(_ask(pynvml.nvmlDeviceGetUUID, device)))
    return tuple(found)


def _processes(ask: Callable[..., Any]) -> tuple[GpuProcess, ...]:
    found = []
    for process in ask(pynvml.nvmlDeviceGetComputeRunningProcesses) or ():
        name = None
        with contextlib.suppress(psutil.Error):
            name = psutil.Process(process.pid).name()
        memory = process.usedGpuMemory
        found.append(GpuProcess(pid=process.pid, name=name, memory_bytes=memory))
    return tuple(found)

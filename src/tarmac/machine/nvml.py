"""NVIDIA's GPUs as the driver's management library describes them, without `nvidia-smi`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import psutil
import pynvml

from tarmac.machine.asking import Asker, NoAnswerError, answer_in_time
from tarmac.machine.gpu import Gpu, GpuProcess, MigDevice
from tarmac.machine.nvlink import NvlinkPair, read_link_states, read_nvlink_pairs
from tarmac.machine.nvml_calls import (
    NvmlProblem,
    NvmlStart,
    ask_running,
    known,
    names_of,
    pci_address,
    start_nvml,
    watts,
)
from tarmac.machine.nvml_calls import ask as _ask
from tarmac.machine.nvml_health import read_health
from tarmac.machine.nvml_load import LoadReader
from tarmac.machine.pids import sees_all_processes

# Without persistence mode, a driver takes a second or two per GPU to start.
_PATIENCE_S = 20.0

T = TypeVar("T")

# Queries that a hung GPU has not answered yet, by the GPU's index.
_late: dict[int, Asker[Any]] = {}

_COMPUTE_MODES = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive process",
}


class Nvml:
    """The started library, while `open_nvml` holds it open.

    GPUs are queried in threads, because a thread in a hung driver receives no signals. A GPU that
    gives no answer in time is not queried again, and by later starts only once it has answered.

    Attributes:
        version: Version of the driver; None if unknown.
        cuda: Newest CUDA version that the driver supports, ``13.0``; None if unknown.
    """

    def __init__(self, start: NvmlStart) -> None:
        self.version, self.cuda = start.version, start.cuda
        self._num_gpus = start.num_gpus
        self._silences = {index: words for index in [*_late] if (words := _silence_of(index))}

    def read_gpus(self, *, with_health: bool = False) -> tuple[Gpu, ...]:
        """Describe all GPUs, in the order of the bus.

        Args:
            with_health: Whether to read faults, limits and required actions too, some from the
                card's infoROM, which takes longer. Default False.
        """
        gpus = self._each(partial(_read_gpu, with_health=with_health))
        return tuple(
            gpus.get(index) or Gpu(index=index, error=self._silences[index])
            for index in range(self._num_gpus)
        )

    def read_nvlink_pairs(self) -> tuple[NvlinkPair, ...]:
        """Return the pairs of GPUs that NVLink connects; empty if a GPU gives no answer."""
        if self._silences:
            return ()
        try:
            return answer_in_time(partial(read_nvlink_pairs, self._num_gpus), _PATIENCE_S)
        except NoAnswerError:
            return ()

    def load_readers(self) -> dict[int, LoadReader]:
        """Return the load readers of all GPUs that answer, by the GPU's index."""

        def handle_of(index: int) -> Any:
            handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            return handle and _ask(pynvml.nvmlDeviceGetUUID, handle) and handle

        handles = self._each(handle_of)
        return {index: LoadReader(handle) for index, handle in handles.items() if handle}

    def gpus_of_process(self, pid: int) -> set[int]:
        """Return the indices of the GPUs that a process or its children compute on."""
        pids = {pid}
        with contextlib.suppress(psutil.Error):
            pids |= {child.pid for child in psutil.Process(pid).children(recursive=True)}

        def computes(index: int) -> bool:
            handle = _ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            running = ask_running(handle, "Compute") if handle else None
            return any(process.pid in pids for process in running or ())

        return {index for index, does in self._each(computes).items() if does}

    def _each(self, question: Callable[[int], T]) -> dict[int, T]:
        """Query all GPUs in parallel; return the answers that arrive in time, by index."""
        askers = {
            index: Asker(question) for index in range(self._num_gpus) if index not in self._silences
        }
        for index, asker in askers.items():
            asker.ask(index)
        answers = {}
        for index, asker in askers.items():
            try:
                answers[index] = asker.answer(_PATIENCE_S)
            except NoAnswerError as silence:
                self._silences[index] = str(silence)
                _late[index] = asker
            finally:
                asker.close()
        return answers

    def close(self) -> None:
        """Release the driver, unless it hangs: the call would hang too."""
        if not self._silences:
            # A failed shutdown does no harm: all answers are here.
            with contextlib.suppress(pynvml.NVMLError, NoAnswerError):
                answer_in_time(pynvml.nvmlShutdown, _PATIENCE_S)


def _silence_of(index: int) -> str:
    """Return how long a GPU has not answered, in words; empty once it has."""
    asker = _late.pop(index, None)
    if asker is None:
        return ""
    try:
        asker.answer(0.0)
    except NoAnswerError as silence:
        _late[index] = asker
        return str(silence)
    return ""


@contextlib.contextmanager
def open_nvml() -> Iterator[Nvml | NvmlProblem]:
    """Start the library; yield the problem instead if it does not start in time."""
    try:
        start = start_nvml(_PATIENCE_S)
    except NoAnswerError as silence:
        start = NvmlProblem(f"NVML: {silence}", is_absence=False)
    if isinstance(start, NvmlProblem):
        yield start
        return
    nvml = Nvml(start)
    try:
        yield nvml
    finally:
        nvml.close()


def has_exclusive_gpu(nvml: Nvml | NvmlProblem) -> bool:
    """Whether a GPU of this machine allows one process at a time; False without a driver."""
    gpus = () if isinstance(nvml, NvmlProblem) else nvml.read_gpus()
    return any(gpu.is_exclusive for gpu in gpus)


def _read_gpu(index: int, *, with_health: bool) -> Gpu:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        name = pynvml.nvmlDeviceGetName(handle)
    except pynvml.NVMLError as error:
        return Gpu(index=index, error=str(error))

    def ask(function: Callable[..., Any], *arguments: Any) -> Any:
        return _ask(function, handle, *arguments)

    memory = ask(pynvml.nvmlDeviceGetMemoryInfo)
    capability = ask(pynvml.nvmlDeviceGetCudaComputeCapability)
    mig, mig_devices = _read_mig(handle)
    nvlinks = read_link_states(handle)
    return Gpu(
        index=index,
        name=name,
        uuid=ask(pynvml.nvmlDeviceGetUUID),
        address=pci_address(ask(pynvml.nvmlDeviceGetPciInfo)),
        memory_bytes=None if memory is None else memory.total,
        used_bytes=None if memory is None else memory.used,
        capability=None if capability is None else tuple(capability),
        pcie=known(
            generation=ask(pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
            width=ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
            max_generation=ask(pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
            max_width=ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth),
        ),
        nvlinks=nvlinks,
        ecc=_flag((ask(pynvml.nvmlDeviceGetEccMode) or (None,))[0]),
        corrected_errors=ask(
            pynvml.nvmlDeviceGetTotalEccErrors,
            pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        uncorrected_errors=ask(
            pynvml.nvmlDeviceGetTotalEccErrors,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        sm_clock_mhz=known(
            now=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
            max=ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_SM),
        ),
        memory_clock_mhz=known(
            now=ask(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
            max=ask(pynvml.nvmlDeviceGetMaxClockInfo, pynvml.NVML_CLOCK_MEM),
        ),
        slowdowns=names_of(ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons) or 0),
        power_watts=known(
            now=watts(ask(pynvml.nvmlDeviceGetPowerUsage)),
            limit=watts(ask(pynvml.nvmlDeviceGetEnforcedPowerLimit)),
        ),
        temperature_c=ask(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
        utilization=getattr(ask(pynvml.nvmlDeviceGetUtilizationRates), "gpu", None),
        persistence=_flag(ask(pynvml.nvmlDeviceGetPersistenceMode)),
        compute_mode=_COMPUTE_MODES.get(ask(pynvml.nvmlDeviceGetComputeMode)),
        mig=mig,
        mig_devices=mig_devices,
        processes=_processes(handle),
        **_read_rows(ask),
        **(read_health(handle, len(nvlinks)) if with_health else {}),
    )


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _read_rows(ask: Callable[..., Any]) -> dict[str, Any]:
    """Return the fields of `Gpu` about replaced memory rows; before Ampere, about pages."""
    rows = ask(pynvml.nvmlDeviceGetRemappedRows)
    if rows is not None:
        corrected, uncorrected, is_pending, has_failed = rows
        return {
            "remap_failed": bool(has_failed),
            "retired_pages": int(corrected + uncorrected),
            "retired_pages_pending": bool(is_pending),
            "remapped_rows": {"corrected": corrected, "uncorrected": uncorrected},
        }
    causes = (
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    )
    pages = [ask(pynvml.nvmlDeviceGetRetiredPages, cause) for cause in causes]
    counts = [len(page) for page in pages if page is not None]
    return {
        "retired_pages": sum(counts) if counts else None,
        "retired_pages_pending": _flag(ask(pynvml.nvmlDeviceGetRetiredPagesPendingStatus)),
    }


def _read_mig(handle: Any) -> tuple[bool | None, tuple[MigDevice, ...]]:
    """Return whether a GPU is partitioned, None if unknown, and its instances."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        # The card, or a driver before 450, does not support MIG.
        return False, ()
    except pynvml.NVMLError:
        return None, ()
    if current != pynvml.NVML_DEVICE_MIG_ENABLE:
        return False, ()
    devices = []
    for number in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        # Not every number has an instance, and a container may not see all instances.
        device = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        uuid = None if device is None else _ask(pynvml.nvmlDeviceGetUUID, device)
        if uuid is not None:
            memory = _ask(pynvml.nvmlDeviceGetMemoryInfo, device)
            devices.append(
                MigDevice(
                    uuid=uuid,
                    name=_ask(pynvml.nvmlDeviceGetName, device),
                    memory_bytes=None if memory is None else memory.total,
                    used_bytes=None if memory is None else memory.used,
                )
            )
    return True, tuple(devices)


def _processes(handle: Any) -> tuple[GpuProcess, ...]:
    """Return the processes on a GPU, without this process and its descendants."""
    processes = {}
    is_known_here = sees_all_processes()
    graphics, compute = (ask_running(handle, kind) or [] for kind in ("Graphics", "Compute"))
    for process in graphics + compute:
        name, parents = None, []
        if is_known_here:
            with contextlib.suppress(psutil.Error):
                there = psutil.Process(process.pid)
                name, parents = there.name(), [parent.pid for parent in there.parents()]
        if not is_known_here or os.getpid() not in (process.pid, *parents):
            memory = process.usedGpuMemory
            processes[process.pid] = GpuProcess(pid=process.pid, name=name, memory_bytes=memory)
    return tuple(processes.values())

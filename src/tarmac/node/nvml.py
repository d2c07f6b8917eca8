"""The GPUs of NVIDIA's driver, read with NVML: https://docs.nvidia.com/deploy/nvml-api/."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tarmac.node.gpus import Gpu, GpuError

_LIBRARY = "libnvidia-ml.so.1"
# NVML_DEVICE_UUID_V2_BUFFER_SIZE
_UUID_BYTES = 96
_MAX_PROCESSES = 64


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _MemoryV2(ctypes.Structure):
    # Unlike version 1, version 2 does not count the driver's own memory as used.
    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Process(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


def read_gpus() -> list[Gpu] | None:
    """Return the GPUs that the driver shows, in the order of their numbers; None without a driver.

    Their use is not read.

    Raises:
        GpuError: The driver fails; the message has its own words.
    """
    with _opened() as nvml:
        if nvml is None:
            return None
        count = ctypes.c_uint()
        _call(nvml, "nvmlDeviceGetCount_v2", ctypes.byref(count))
        return [_read_gpu(nvml, number) for number in range(count.value)]


@contextlib.contextmanager
def reading_use(names: Sequence[str]) -> Iterator[Callable[[], list[Gpu]]]:
    """Keep the driver open; yield a function that returns the GPUs with their current use.

    GPUs that the driver does not report are left out.

    Args:
        names: UUIDs of GPUs or of MIG instances.
    """
    with contextlib.ExitStack() as opened:
        nvml = None
        with contextlib.suppress(GpuError):
            nvml = opened.enter_context(_opened())

        def read() -> list[Gpu]:
            gpus = []
            for name in names if nvml is not None else ():
                # Old drivers and vGPUs do not report all values.
                with contextlib.suppress(GpuError, AttributeError):
                    gpus.append(_read_use(nvml, name))
            return gpus

        yield read


@contextlib.contextmanager
def _opened() -> Iterator[Any]:
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        yield None
        return
    _call(nvml, "nvmlInit_v2")
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _read_use(nvml: Any, name: str) -> Gpu:
    device = ctypes.c_void_p()
    _call(nvml, "nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(device))
    memory = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
    _call(nvml, "nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(memory))
    count = ctypes.c_uint(_MAX_PROCESSES)
    processes = (_Process * _MAX_PROCESSES)()
    try:
        _call(
            nvml, "nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), processes
        )
    except (GpuError, AttributeError):
        count.value = 0
    pids = tuple(process.pid for process in processes[: count.value])
    busy = _Utilization()
    # MIG instances do not report utilization.
    with contextlib.suppress(GpuError, AttributeError):
        _call(nvml, "nvmlDeviceGetUtilizationRates", device, ctypes.byref(busy))
    return Gpu(name, memory.total, memory.used, pids, busy.gpu)


def _read_gpu(nvml: Any, number: int) -> Gpu:
    try:
        return _describe_gpu(nvml, number)
    except GpuError as error:
        # A lost GPU must not hide the others.
        return Gpu("", 0, problem=str(error))


def _describe_gpu(nvml: Any, number: int) -> Gpu:
    device = ctypes.c_void_p()
    _call(nvml, "nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(device))
    uuid = ctypes.create_string_buffer(_UUID_BYTES)
    _call(nvml, "nvmlDeviceGetUUID", device, uuid, ctypes.c_uint(_UUID_BYTES))
    memory = _Memory()
    _call(nvml, "nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
    return Gpu(uuid.value.decode(), memory.total)


def _call(nvml: Any, name: str, *arguments: Any) -> None:
    code = getattr(nvml, name)(*arguments)
    if code:
        nvml.nvmlErrorString.restype = ctypes.c_char_p
        words = (nvml.nvmlErrorString(code) or b"").decode(errors="replace")
        raise GpuError(f"NVIDIA's driver fails: {words or code} ({name})")

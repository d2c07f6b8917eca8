"""NVIDIA's GPUs by the driver's own numbers, without a framework."""

from __future__ import annotations

import dataclasses

import pynvml

__all__ = ["GpuInfo", "list_gpus"]


@dataclasses.dataclass(frozen=True)
class GpuInfo:
    """A GPU that can be given to a program.

    Attributes:
        uuid: What ``CUDA_VISIBLE_DEVICES`` takes.
        name: What the vendor calls it.
        memory_bytes: Memory in all.
    """

    uuid: str
    name: str
    memory_bytes: int


def list_gpus() -> tuple[GpuInfo, ...]:
    """Return the GPUs of this machine; none where there is no driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            GpuInfo(
                uuid=pynvml.nvmlDeviceGetUUID(handle),
                name=pynvml.nvmlDeviceGetName(handle),
                memory_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
            )
            for handle in handles
        )
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()

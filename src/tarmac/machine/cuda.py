"""The GPUs that PyTorch sees, described by the driver.

PyTorch's own query of free memory creates a CUDA context. That takes some tenths of a second and
some hundred MiB, and in compute mode EXCLUSIVE_PROCESS it locks all other processes out. NVML needs
no context.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tarmac.machine.device import Device
from tarmac.machine.gpu import Gpu
from tarmac.machine.nvml import open_nvml
from tarmac.machine.nvml_calls import NvmlProblem
from tarmac.machine.obstacles import (
    CudaBuild,
    Obstacle,
    find_obstacle,
    name_holders,
    why_none_is_seen,
)


def look_at_gpus(*, shared: bool = False) -> tuple[Sequence[Device], Obstacle | None]:
    """Describe the GPUs that PyTorch sees.

    Args:
        shared: Whether other processes of the same training may use the GPUs already.

    Returns:
        The GPUs, and the reason why there is none; None if there is a GPU, or the machine has none.
    """
    import torch  # noqa: PLC0415 - commands without a framework import this module

    build = read_build()
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    driver: str | None = None
    problem: str | None = None
    gpus: Sequence[Gpu] = ()
    with open_nvml() as nvml:
        if isinstance(nvml, NvmlProblem):
            problem = None if nvml.is_absence else nvml.text
        else:
            driver, gpus = nvml.cuda, nvml.read_gpus()
    if not count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return (), why_none_is_seen(build, gpus, driver=driver, problem=problem, visible=visible)
    cuda_gpus = [_describe(index, gpus, build, driver, shared=shared) for index in range(count)]
    return cuda_gpus, None


def read_build() -> CudaBuild:
    """Return how the installed PyTorch was built."""
    import torch  # noqa: PLC0415 - as above

    architectures = torch.cuda.get_arch_list() if torch.version.cuda else []
    return CudaBuild(str(torch.__version__), torch.version.cuda, tuple(architectures))


def _describe(
    index: int, gpus: Sequence[Gpu], build: CudaBuild, driver: str | None, *, shared: bool
) -> Device:
    import torch  # noqa: PLC0415 - as above

    properties = torch.cuda.get_device_properties(index)
    capability = (properties.major, properties.minor)
    digits = str(properties.uuid)
    gpu, part = _find(gpus, digits)
    memory = (gpu if part is None else part) if gpu is not None else None
    # For the driver, the unused part of the cache is in use; for this process it is free.
    reserved = torch.cuda.memory_reserved(index)
    unused = reserved - torch.cuda.memory_allocated(index)
    if memory is None or memory.memory_bytes is None or memory.used_bytes is None:
        free, total = torch.cuda.mem_get_info(index)
    else:
        total = memory.memory_bytes
        free = total - memory.used_bytes
    known = Gpu(index=index, name=properties.name) if gpu is None else gpu
    facts: dict[str, Any] = {"capability": capability, "name": properties.name}
    return Device(
        type="cuda",
        index=index,
        name=properties.name,
        uuid=f"GPU-{digits}" if memory is None or memory.uuid is None else memory.uuid,
        memory_bytes=total,
        available_bytes=free + unused,
        # bf16 entered NVIDIA's tensor cores with compute capability 8.0 (A100 whitepaper, 2020).
        bf16_matrix_units=capability >= (8, 0),
        compute_capability=capability,
        num_threads=0,
        held_by="" if gpu is None else name_holders(gpu),
        obstacle=find_obstacle(
            known.model_copy(update=facts),
            build,
            driver=driver,
            # In an exclusive mode, a GPU with memory of this process has no other holder.
            shares=shared or reserved > 0,
        ),
    )


def _find(gpus: Sequence[Gpu], digits: str) -> tuple[Gpu | None, Any]:
    """Return the GPU of a UUID without its prefix, and the MIG instance, if any.

    CUDA's UUID of an instance is the instance's own, or that of its GPU before CUDA 11.4. In that
    case a partitioned GPU stands for its first instance.
    """
    for gpu in gpus:
        for part in gpu.mig_devices:
            if part.uuid == f"MIG-{digits}":
                return gpu, part
        if gpu.uuid == f"GPU-{digits}":
            return gpu, next(iter(gpu.mig_devices), None)
    return None, None

"""The GPUs that a process may use: the driver's, limited by ``CUDA_VISIBLE_DEVICES``.

Names in that variable are indices or prefixes of UUIDs, and the first name that is neither ends the
list (CUDA C++ programming guide, "CUDA environment variables").
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tarmac.errors import RequestError
from tarmac.machine.gpu import Gpu, MigDevice
from tarmac.machine.nvml import Nvml, open_nvml
from tarmac.machine.nvml_calls import NvmlProblem

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class GpuInfo:
    """A GPU or MIG instance that can be given to a program.

    Attributes:
        uuid: UUID of the GPU or instance, as ``CUDA_VISIBLE_DEVICES`` takes it.
        name: Vendor's name of the GPU or instance.
        memory_bytes: Total memory in bytes, used and free.
        is_instance: Whether it is a MIG instance of a partitioned GPU.
        is_exclusive: Whether one process at a time may compute on it (compute mode
            EXCLUSIVE_PROCESS).
    """

    uuid: str
    name: str
    memory_bytes: int
    is_instance: bool = False
    is_exclusive: bool = False


def list_gpus(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> tuple[GpuInfo, ...]:
    """Return the GPUs that a process may use, without those in compute mode PROHIBITED.

    Args:
        gpus: All GPUs of the driver, from `read_gpus_in_time`.
        environment: Variables with ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``.

    Raises:
        RequestError: A GPU does not answer, or the meaning of ``CUDA_VISIBLE_DEVICES`` is unknown
            here.
    """
    infos = visible_gpus(
        gpus,
        environment.get("CUDA_VISIBLE_DEVICES"),
        is_by_bus=environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID",
    )
    prohibited = {gpu.uuid for gpu in gpus if gpu.compute_mode == "prohibited"}
    return tuple(info for info in infos if info.uuid not in prohibited)


def read_gpus_in_time() -> tuple[Gpu, ...]:
    """Return the driver's descriptions of all GPUs; empty without a driver.

    Raises:
        RequestError: The driver fails, or does not answer.
    """
    return _ask(lambda nvml: nvml.read_gpus()) or ()


def newest_cuda() -> str | None:
    """Return the newest CUDA version that the driver supports, ``13.0``; None without a driver.

    Raises:
        RequestError: The driver fails, or does not answer.
    """
    return _ask(lambda nvml: nvml.cuda)


def _ask(question: Callable[[Nvml], T]) -> T | None:
    """Query the driver; return None without a driver."""
    with open_nvml() as nvml:
        if isinstance(nvml, NvmlProblem):
            if nvml.is_absence:
                return None
            raise _unanswered(nvml.text)
        return question(nvml)


def visible_gpus(
    gpus: Sequence[Gpu], visible: str | None, *, is_by_bus: bool
) -> tuple[GpuInfo, ...]:
    """Return the GPUs that CUDA would see; a partitioned GPU stands for its first instance.

    Args:
        gpus: GPUs in the order of the bus.
        visible: Value of ``CUDA_VISIBLE_DEVICES``; None if unset, for all GPUs.
        is_by_bus: Whether ``CUDA_DEVICE_ORDER`` selects the order of the bus. CUDA's default order,
            the fastest first, is known here only if all GPUs are alike.

    Raises:
        RequestError: A named GPU does not answer, or an index is ambiguous.
    """
    if visible is None:
        return tuple(info for gpu in gpus for info in _usable(gpu, gpus))
    infos: dict[str, GpuInfo] = {}
    for name in visible.split(","):
        info = _find(gpus, name.strip(), is_by_bus)
        if info is None:
            break
        infos[info.uuid] = info
    return tuple(infos.values())


def names_nothing(gpus: Sequence[Gpu], visible: str) -> bool:
    """Return whether ``CUDA_VISIBLE_DEVICES`` has a name that no GPU here has.

    Args:
        gpus: GPUs in the order of the bus.
        visible: Value of ``CUDA_VISIBLE_DEVICES``, names separated by commas.
    """
    names = [name.strip() for name in visible.split(",")]
    return any(not _meant(gpus, name) for name in names)


def _find(gpus: Sequence[Gpu], name: str, is_by_bus: bool) -> GpuInfo | None:
    models = {gpu.name for gpu in gpus if gpu.name is not None}
    meant = _meant(gpus, name)
    if meant and name.isdecimal() and len(models) > 1 and not is_by_bus:
        raise RequestError(
            f"CUDA_VISIBLE_DEVICES names GPU {name}, and CUDA numbers GPUs that differ by their "
            f"speed, which the driver does not report: {', '.join(sorted(models))}",
            hint="Set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID: nvidia-smi -L",
        )
    if not meant and name.startswith(("GPU-", "MIG-")):
        # The name may be that of a GPU that does not answer: raise its error.
        for gpu in gpus:
            _usable(gpu, gpus)
    if len(meant) != 1:
        return None
    ((gpu, instance),) = meant
    infos = _usable(gpu, gpus)
    if instance is None:
        return next(iter(infos), None)
    return next(info for info in infos if info.uuid == instance.uuid)


def _meant(gpus: Sequence[Gpu], name: str) -> Sequence[tuple[Gpu, MigDevice | None]]:
    """Return the GPUs and instances that match a name of ``CUDA_VISIBLE_DEVICES``."""
    if name.isdecimal():
        return [(gpu, None) for gpu in gpus[int(name) : int(name) + 1]]
    if name.startswith("GPU-"):
        return [(gpu, None) for gpu in gpus if (gpu.uuid or "").startswith(name)]
    if name.startswith("MIG-GPU-"):
        # Drivers before 470 name an instance by its GPU: MIG-GPU-UUID/INSTANCE/INSTANCE (MIG user
        # guide). Later drivers take such names too, and do not report which instance each is.
        uuid, _, numbers = name.removeprefix("MIG-").partition("/")
        return [
            (gpu, instance)
            for gpu in gpus
            for instance in gpu.mig_devices
            if instance.uuid.startswith(name)
            or (numbers and gpu.uuid is not None and gpu.uuid.startswith(uuid))
        ]
    if name.startswith("MIG-"):
        instances = [(gpu, instance) for gpu in gpus for instance in gpu.mig_devices]
        return [(gpu, mig) for gpu, mig in instances if mig.uuid.startswith(name)]
    return ()


def _usable(gpu: Gpu, gpus: Sequence[Gpu]) -> Sequence[GpuInfo]:
    """Return the parts of a GPU that can be given to programs: the whole, or its instances.

    Args:
        gpu: GPU to offer to programs, whole or by MIG instance.
        gpus: All GPUs of the machine, for the error's hint.

    Raises:
        RequestError: The driver does not report a value that is needed.
    """

    def unanswered(words: str) -> RequestError:
        return _unanswered(f"{gpu.label}: {words}", has_others=len(gpus) > 1)

    def info(uuid: str | None, name: str | None, memory_bytes: int | None) -> GpuInfo:
        if uuid is None or name is None or memory_bytes is None:
            raise unanswered("its UUID, name or memory")
        return GpuInfo(
            uuid,
            name,
            memory_bytes,
            is_instance=bool(gpu.mig),
            is_exclusive=gpu.is_exclusive,
        )

    if gpu.error is not None:
        raise unanswered(gpu.error)
    if gpu.mig is None:
        raise unanswered("whether it is partitioned")
    if gpu.mig:
        return [info(mig.uuid, mig.name, mig.memory_bytes) for mig in gpu.mig_devices]
    return [info(gpu.uuid, gpu.name, gpu.memory_bytes)]


def _unanswered(words: str, *, has_others: bool = False) -> RequestError:
    others = " Or name those to use: CUDA_VISIBLE_DEVICES=GPU-..." if has_others else ""
    return RequestError(
        f"NVIDIA's driver does not say which GPUs there are: {words}",
        hint=f"Find the cause: tarmac check.{others}",
    )

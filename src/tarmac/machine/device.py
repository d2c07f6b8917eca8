"""A device as the rest of Tarmac sees it: its name, its memory, what it can do."""

from __future__ import annotations

import dataclasses
import math
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil

from tarmac.errors import RequestError
from tarmac.machine.limits import read_limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Device", "find_devices", "name_cpu", "name_devices", "read_cpuinfo"]


@dataclasses.dataclass(frozen=True)
class Device:
    """One place to compute.

    Attributes:
        type: ``"cpu"`` or ``"cuda"``.
        index: The CUDA ordinal among the visible devices; None for the CPU.
        name: What the vendor calls it.
        uuid: The GPU's UUID; None for the CPU.
        memory_bytes: Memory in all; of the CPU, what this process's control groups leave it.
        available_bytes: Memory free when the device was looked up.
        bf16_matrix_units: Whether bf16 matrix products have hardware of their own (tensor cores
            since Ampere, AMX), which makes them several times as fast as fp32's.
        compute_capability: CUDA's (major, minor); None for the CPU.
        num_threads: Threads that an operation on the CPU uses: as many as cores may be used, by
            affinity and control groups; where replicas share them, those of one. 0 for a GPU.
    """

    type: Literal["cpu", "cuda"]
    index: int | None
    name: str
    uuid: str | None
    memory_bytes: int
    available_bytes: int
    bf16_matrix_units: bool
    compute_capability: tuple[int, int] | None
    num_threads: int

    @property
    def torch_name(self) -> str:
        """The device as PyTorch spells it: ``cpu``, ``cuda:0``."""
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def to_record(self) -> dict[str, object]:
        """Return the device as JSON values, for ``run.json``."""
        record = dataclasses.asdict(self)
        del record["available_bytes"]
        capability = self.compute_capability
        record["compute_capability"] = None if capability is None else list(capability)
        return record


def find_devices(request: str = "auto") -> tuple[Device, ...]:
    """Find the devices that a user asked for.

    Args:
        request: ``"auto"`` or ``"all"`` (every GPU, else the CPU), a number of GPUs (``"2"``),
            their indices (``"0,2"``, ``"cuda:1"``, ``"cuda:0,2"``), ``"cuda"`` (the first GPU),
            ``"cpu"``, or ``"cpu:2"`` to share the CPU's cores out among two replicas.

    Raises:
        RequestError: The text names no devices, names one twice, or one that is not here.
    """
    kind, separator, rest = request.partition(":")
    if kind == "cpu":
        return _cpu_replicas(request, rest if separator else "1")
    indices = _cuda_indices(request)
    import torch  # noqa: PLC0415 - this room is imported by commands that need no framework

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count and (indices is None or request == "1"):
        return (_cpu(),)
    if not count:
        raise RequestError(f"devices is {request!r}, but {_why_no_cuda()}", hint=_NO_CUDA_HINT)
    if indices is None:
        indices = tuple(range(count))
    if max(indices) >= count:
        here = ", ".join(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(count))
        raise RequestError(f"devices is {request!r}, but this machine has {count}: {here}")
    return tuple(_cuda(index) for index in indices)


def name_devices(devices: Sequence[Device]) -> str:
    """Return the text that finds these devices again: ``cpu:2``, ``cuda:0``, ``cuda:0,2``."""
    if devices[0].type == "cpu":
        return "cpu" if len(devices) == 1 else f"cpu:{len(devices)}"
    # One that stands for several processes, each of which sees it alone, has one name.
    return "cuda:" + ",".join(dict.fromkeys(str(device.index) for device in devices))


_FORMS = "expected auto, all, a number of GPUs, their indices (0,2), cuda:INDEX, cpu or cpu:NUMBER"

_NO_CUDA_HINT = "Use --devices cpu, or cpu:2 to try two replicas; auto takes a GPU where one is."


def _cuda_indices(request: str) -> tuple[int, ...] | None:
    """Read a request for GPUs; None stands for all of them."""
    if request in ("auto", "all"):
        return None
    if request == "cuda":
        return (0,)
    kind, separator, rest = request.partition(":")
    if separator and kind != "cuda":
        raise RequestError(f"devices is {request!r}, {_FORMS}")
    words = (rest if separator else request).split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise RequestError(f"devices is {request!r}, {_FORMS}")
    numbers = tuple(int(word) for word in words)
    if not separator and len(numbers) == 1:
        if numbers[0] < 1:
            raise RequestError(
                f"devices is {request!r}, expected at least 1",
                hint="A number says how many GPUs; the first one alone is cuda:0.",
            )
        return tuple(range(numbers[0]))
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise RequestError(f"devices is {request!r}, which names cuda:{twice} twice")
    return numbers


def _cpu_replicas(request: str, text: str) -> tuple[Device, ...]:
    if not text.isdecimal() or int(text) < 1:
        raise RequestError(f"devices is {request!r}, expected cpu or cpu:NUMBER from 1")
    cpu, count = _cpu(), int(text)
    share = dataclasses.replace(
        cpu,
        num_threads=max(1, cpu.num_threads // count),
        available_bytes=cpu.available_bytes // count,
    )
    return (share,) * count


def _why_no_cuda() -> str:
    import torch  # noqa: PLC0415 - as above

    if torch.version.cuda is None:
        return f"this PyTorch ({torch.__version__}) is built without CUDA"
    return f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}) sees no GPU here"


def _cuda(index: int) -> Device:
    import torch  # noqa: PLC0415 - as above

    properties = torch.cuda.get_device_properties(index)
    free, total = torch.cuda.mem_get_info(index)
    capability = (properties.major, properties.minor)
    return Device(
        type="cuda",
        index=index,
        name=properties.name,
        uuid=f"GPU-{properties.uuid}",
        memory_bytes=total,
        available_bytes=free,
        # bf16 entered NVIDIA's tensor cores with compute capability 8.0 (A100 whitepaper, 2020).
        bf16_matrix_units=capability >= (8, 0),
        compute_capability=capability,
        num_threads=0,
    )


def _cpu() -> Device:
    cpuinfo = read_cpuinfo()
    memory, limits = psutil.virtual_memory(), read_limits()
    most = min(memory.total, limits.memory_bytes or memory.total)
    return Device(
        type="cpu",
        index=None,
        name=name_cpu(),
        uuid=None,
        memory_bytes=most,
        available_bytes=min(memory.available, most),
        bf16_matrix_units="amx_bf16" in cpuinfo.get("flags", "").split(),
        compute_capability=None,
        # A part of a core is a thread's that waits now and then.
        num_threads=math.ceil(limits.cpus),
    )


def name_cpu() -> str:
    """Return what the vendor calls this machine's processor."""
    return read_cpuinfo().get("model name") or platform.processor() or platform.machine()


def read_cpuinfo() -> Mapping[str, str]:
    """Read the first processor's entry of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}

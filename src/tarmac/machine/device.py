"""A device as the rest of Tarmac sees it: its name, memory and capabilities."""

from __future__ import annotations

import dataclasses
import math
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import psutil

from tarmac.errors import RequestError
from tarmac.machine.cuda import CudaGpu, look_at_gpus, read_build
from tarmac.machine.limits import read_limits
from tarmac.machine.obstacles import Obstacle

_WITHOUT_TENSOR_CORES = re.compile(r"\b(GTX 16\d\d|MX[45]\d0|T([456]00|550|1000|1200))\b")

# Reasons why `auto` selects the CPU.
_NO_GPU = "no GPU is here"
UNUSABLE = "the GPUs here cannot be used"


@dataclasses.dataclass(frozen=True)
class Device:
    """A device to compute on.

    Attributes:
        type: Kind of device, ``"cpu"`` or ``"cuda"``.
        index: The CUDA ordinal among the visible devices; None for the CPU.
        name: Vendor's name of the device.
        uuid: UUID ``GPU-...``, or ``MIG-...`` for an instance of a GPU; None for the CPU.
        memory_bytes: Total memory in bytes; for the CPU, at most the limit of control groups.
        available_bytes: Free memory in bytes when the device was looked up.
        bf16_matrix_units: Whether bf16 matrix products have hardware of their own (tensor cores
            since Ampere, AMX), which makes them several times as fast as fp32's.
        compute_capability: CUDA's (major, minor); None for the CPU.
        num_threads: CPU threads of an operation: the usable cores by affinity and control groups,
            divided among replicas. 0 for a GPU.
        held_by: Processes that held memory of a GPU when it was looked up, with sizes, in words.
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
    held_by: str = ""

    @property
    def fp16_matrix_units(self) -> bool:
        """Whether fp16 matrix products have hardware of their own: NVIDIA's tensor cores.

        Tensor cores exist since compute capability 7.0 (V100 whitepaper, 2017). TU116 and TU117, of
        7.5, have none: GTX 16, and the notebook and workstation cards with these chips (NVIDIA's
        table of CUDA GPUs and their data sheets, 2019 to 2021).
        """
        if self.compute_capability is None or self.compute_capability < (7, 0):
            return False
        return not (self.compute_capability == (7, 5) and _WITHOUT_TENSOR_CORES.search(self.name))

    @property
    def torch_name(self) -> str:
        """The device in PyTorch's notation: ``cpu``, ``cuda:0``."""
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def to_record(self) -> dict[str, object]:
        """Return the device as JSON values, for ``run.json``."""
        record = dataclasses.asdict(self)
        del record["available_bytes"], record["held_by"]
        capability = self.compute_capability
        record["compute_capability"] = None if capability is None else list(capability)
        return record


def find_devices(request: str = "auto", *, shared: bool = False) -> tuple[Device, ...]:
    """Find the devices that a user requested.

    No CUDA context is created if the driver's library answers.

    Args:
        request: ``"auto"`` or ``"all"`` (every usable GPU, else the CPU), a number of usable GPUs
            (``"2"``), indices (``"0,2"``, ``"cuda:1"``, ``"cuda:0,2"``), ``"cuda"`` (the first
            GPU), ``"cpu"``, or ``"cpu:2"`` to divide the CPU's cores between two replicas.
        shared: Whether other processes of the same training may use the GPUs already, so that an
            exclusive GPU does not count as another program's.

    Raises:
        RequestError: The text names no devices, the same device twice, or a missing or unusable
            device.
    """
    kind, separator, rest = request.partition(":")
    if kind == "cpu":
        return _cpu_replicas(request, rest if separator else "1")
    selection = _cuda_request(request)
    gpus, why_none = look_at_gpus(shared=shared)
    if isinstance(selection, tuple):
        return tuple(_cuda(gpu) for gpu in _named(gpus, selection, request, why_none))
    usable = [gpu for gpu in gpus if gpu.obstacle is None]
    if not usable and selection in (None, 1):
        return (_cpu(),)
    if selection is not None and selection > len(usable):
        raise _too_few(request, gpus, why_none)
    return tuple(_cuda(gpu) for gpu in usable[:selection])


def why_on_cpu() -> str:
    """Return why ``auto`` selects the CPU: there is no GPU, or the problem and its remedy."""
    gpus, why_none = look_at_gpus()
    obstacles = [gpu.obstacle for gpu in gpus if gpu.obstacle is not None]
    if why_none is not None:
        obstacles.append(why_none)
    texts = dict.fromkeys(f"{obstacle.text}. {obstacle.hint}" for obstacle in obstacles)
    return f"{UNUSABLE}: {'; '.join(texts)}" if texts else _NO_GPU


def name_left_out(*, shared: bool = False) -> str:
    """Return the unusable GPUs with the reasons, in words; empty if all are usable.

    Args:
        shared: Whether other processes of the same training may use the GPUs already, as for
            `find_devices`.
    """
    gpus, _ = look_at_gpus(shared=shared)
    words = [f"cuda:{g.index}: {g.obstacle.text}" for g in gpus if g.obstacle is not None]
    return f"without {'; without '.join(words)}" if words else ""


def name_devices(devices: Sequence[Device]) -> str:
    """Return the request that finds these devices again: ``cpu:2``, ``cuda:0``, ``cuda:0,2``."""
    if devices[0].type == "cpu":
        return "cpu" if len(devices) == 1 else f"cpu:{len(devices)}"
    # Processes that see one GPU each may all have the same index: name it once.
    return "cuda:" + ",".join(dict.fromkeys(str(device.index) for device in devices))


_FORMS = "expected auto, all, a number of GPUs, their indices (0,2), cuda:INDEX, cpu or cpu:NUMBER"

_NO_CUDA_HINT = "Use cpu, or cpu:2 to train two replicas; auto takes a GPU where one is."


def _cuda_request(request: str) -> int | tuple[int, ...] | None:
    """Parse a request for GPUs: their number or their indices; None stands for all GPUs."""
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
        return numbers[0]
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise RequestError(f"devices is {request!r}, which names cuda:{twice} twice")
    return numbers


def _named(
    gpus: Sequence[CudaGpu], indices: Sequence[int], request: str, why_none: Obstacle | None
) -> Sequence[CudaGpu]:
    """Return the GPUs of some indices; raise an error if one of them is unusable."""
    if not gpus or max(indices) >= len(gpus):
        raise _too_few(request, gpus, why_none)
    for gpu in (gpus[index] for index in indices):
        if gpu.obstacle is not None:
            raise RequestError(
                f"devices is {request!r}, but cuda:{gpu.index} cannot be computed on: "
                f"{gpu.obstacle.text}",
                hint=gpu.obstacle.hint,
            )
    return [gpus[index] for index in indices]


def _too_few(request: str, gpus: Sequence[CudaGpu], why_none: Obstacle | None) -> RequestError:
    if gpus:
        here = ", ".join(f"cuda:{gpu.index} ({gpu.name})" for gpu in gpus)
        text = f"devices is {request!r}, but this machine has {len(gpus)}: {here}"
        obstacles = {gpu.index: gpu.obstacle for gpu in gpus if gpu.obstacle is not None}
        if not obstacles:
            return RequestError(text)
        words = "; ".join(f"not cuda:{index}: {o.text}" for index, o in obstacles.items())
        return RequestError(f"{text}; {words}", hint=next(iter(obstacles.values())).hint)
    if why_none is not None:
        hint = f"{why_none.hint}. {_NO_CUDA_HINT}"
        return RequestError(f"devices is {request!r}, but {why_none.text}", hint=hint)
    build = read_build()
    if build.cuda is None:
        why = f"this PyTorch ({build.version}) is built without CUDA"
    else:
        why = f"{build.label} sees no GPU here"
    return RequestError(f"devices is {request!r}, but {why}", hint=_NO_CUDA_HINT)


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


def _cuda(gpu: CudaGpu) -> Device:
    return Device(
        type="cuda",
        index=gpu.index,
        name=gpu.name,
        uuid=gpu.uuid,
        memory_bytes=gpu.memory_bytes,
        available_bytes=gpu.free_bytes,
        # bf16 entered NVIDIA's tensor cores with compute capability 8.0 (A100 whitepaper, 2020).
        bf16_matrix_units=gpu.capability >= (8, 0),
        compute_capability=gpu.capability,
        num_threads=0,
        held_by=gpu.held_by,
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
        # A fraction of a core is a thread that waits at times.
        num_threads=math.ceil(limits.cpus),
    )


def name_cpu() -> str:
    """Return the vendor's name of this machine's processor."""
    return read_cpuinfo().get("model name") or platform.processor() or platform.machine()


def read_cpuinfo() -> Mapping[str, str]:
    """Read the first processor's entry of /proc/cpuinfo; empty if there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}

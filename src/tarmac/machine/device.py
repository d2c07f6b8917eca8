"""A device as the rest of Tarmac sees it: its name, memory and capabilities."""

from __future__ import annotations

import dataclasses
import math
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import psutil

from tarmac.machine.limits import read_limits
from tarmac.machine.obstacles import Obstacle

_WITHOUT_TENSOR_CORES = re.compile(r"\b(GTX 16\d\d|MX[45]\d0|T([456]00|550|1000|1200))\b")


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
        obstacle: Obstacle to computing on a GPU; None if none is known.
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
    obstacle: Obstacle | None = None

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
        del record["available_bytes"], record["held_by"], record["obstacle"]
        capability = self.compute_capability
        record["compute_capability"] = None if capability is None else list(capability)
        return record


def find_cpu() -> Device:
    """Return the CPU, with the cores and the memory that this process may use."""
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

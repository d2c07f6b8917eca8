"""A device as the rest of Tarmac sees it: its name, its memory, what it can do."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Device", "find_device"]


@dataclasses.dataclass(frozen=True)
class Device:
    """One place to compute.

    Attributes:
        type: ``"cpu"`` or ``"cuda"``.
        index: The CUDA ordinal among the visible devices; None for the CPU.
        name: What the vendor calls it.
        uuid: The GPU's UUID; None for the CPU.
        memory_bytes: Memory in all.
        available_bytes: Memory free when the device was looked up.
        bf16_matrix_units: Whether bf16 matrix products have hardware of their own (tensor cores
            since Ampere, AMX), which makes them several times as fast as fp32's.
        compute_capability: CUDA's (major, minor); None for the CPU.
        num_threads: Threads that an operation on the CPU uses; 0 for a GPU.
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


def find_device(request: str = "auto") -> Device:
    """Find the device that a user asked for.

    Args:
        request: ``"auto"`` (the first GPU, else the CPU), ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        RequestError: The text is not a device, or no such device is here.
    """
    kind, _, index_text = request.partition(":")
    if kind not in ("auto", "cpu", "cuda") or (index_text and kind != "cuda"):
        raise RequestError(f"device is {request!r}, expected auto, cpu, cuda or cuda:INDEX")
    if kind == "cpu":
        return _cpu()
    import torch  # noqa: PLC0415 - this room is imported by commands that need no framework

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if kind == "auto":
        return _cuda(0) if count else _cpu()
    if not count:
        raise RequestError(f"device is {request!r}, but {_why_no_cuda()}", hint=_NO_CUDA_HINT)
    if index_text and not index_text.isdecimal():
        raise RequestError(f"device is {request!r}, expected a number after 'cuda:'")
    index = int(index_text or 0)
    if index >= count:
        here = ", ".join(f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(count))
        raise RequestError(f"device is {request!r}, but this machine has {count}: {here}")
    return _cuda(index)


_NO_CUDA_HINT = "Use --device cpu, or --device auto to take a GPU where there is one."


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
    cpuinfo = _read_cpuinfo()
    memory = psutil.virtual_memory()
    return Device(
        type="cpu",
        index=None,
        name=cpuinfo.get("model name") or platform.processor() or platform.machine(),
        uuid=None,
        memory_bytes=memory.total,
        available_bytes=memory.available,
        bf16_matrix_units="amx_bf16" in cpuinfo.get("flags", "").split(),
        compute_capability=None,
        num_threads=len(psutil.Process().cpu_affinity()) if platform.system() == "Linux" else 0,
    )


def _read_cpuinfo() -> Mapping[str, str]:
    """Read the first processor's entry of /proc/cpuinfo; empty where there is none."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}

"""Where processes train: each on a device, or on a share of a CPU's threads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import Device

# Each process holds PyTorch and the data: some hundred MiB.
_MAX_ON_CPU = 8


@dataclasses.dataclass(frozen=True)
class Slot:
    """Room for one process.

    Attributes:
        device: As PyTorch spells it.
        num_threads: Its threads on a CPU; 0 for a GPU.
    """

    device: str
    num_threads: int

    def show(self) -> str:
        """Say where it is, such as ``cpu with 2 threads``."""
        if not self.num_threads:
            return self.device
        return f"{self.device} with {self.num_threads} thread{'s' if self.num_threads > 1 else ''}"


def slots_of(devices: tuple[Device, ...], workers: int | None) -> list[Slot]:
    """Share devices out among processes.

    A GPU is one process's unless there are more processes than GPUs. On a CPU small networks train
    fastest one per core, so its threads are shared out evenly.
    """
    first = devices[0]
    if first.type == "cuda":
        count = workers or len(devices)
        chosen = [devices[index % len(devices)] for index in range(count)]
        return [Slot(device.torch_name, 0) for device in chosen]
    threads = first.num_threads * len(devices)
    if workers is None:
        workers = len(devices) if len(devices) > 1 else min(threads, _MAX_ON_CPU)
    return [Slot("cpu", max(1, threads // workers)) for _ in range(max(1, workers))]

"""The slots of training processes: a device each, or a share of a CPU's threads."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import Device

# Each process holds PyTorch and the data: some hundred MiB.
_MAX_ON_CPU = 8


@dataclasses.dataclass(frozen=True)
class Slot:
    """The device of one training process.

    Attributes:
        device: Device in PyTorch's notation, such as ``cuda:0``.
        num_threads: Number of CPU threads; 0 for a GPU.
    """

    device: str
    num_threads: int

    def show(self) -> str:
        """Return the slot in words, such as ``cpu with 2 threads``."""
        if not self.num_threads:
            return self.device
        return f"{self.device} with {self.num_threads} thread{'s' if self.num_threads > 1 else ''}"


def slots_of(devices: tuple[Device, ...], workers: int | None) -> list[Slot]:
    """Divide devices among processes.

    Each GPU has one process, unless there are more processes than GPUs. On a CPU, small networks
    train fastest with one per core, so the threads are divided evenly.
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

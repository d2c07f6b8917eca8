"""Compare the time that sharing a step among GPUs saves with its all-reduce, by data sheets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tarmac.machine import Device, find_chip

# Rate of a GPU that is missing from the table of chips.
_RATE_OF_UNKNOWN_FLOPS = 100e12

# An all-reduce of 8 bytes by NCCL on eight RTX 4090 on PCIe (github.com/NVIDIA/nccl/issues/1530).
# Over NVLink it takes a third of that (github.com/NVIDIA/nccl-tests/issues/44).
_LATENCY_S = 42e-6

# GB/s between GPUs without NVLink switches: NCCL's own estimate for messages that cross from one
# processor to another (its log in github.com/NVIDIA/nccl-tests/issues/307).
_BANDWIDTH_BETWEEN_PROCESSORS = 10.0

_GRADIENT_BYTES = 4


@dataclasses.dataclass(frozen=True)
class Sharing:
    """The seconds that sharing saves and costs in a step.

    Attributes:
        saved_s: Seconds that the products save against one GPU, at the rate of the matrix units.
            The real saving is larger, as no training reaches that rate.
        cost_s: Seconds that the all-reduce of the gradients takes.
    """

    saved_s: float
    cost_s: float

    @property
    def pays(self) -> bool:
        """Whether sharing saves more than it costs."""
        return self.saved_s > self.cost_s


def weigh_sharing(gpus: Sequence[Device], flops_each: float, num_parameters: int) -> Sharing:
    """Compare a step on all of several GPUs with the same step on one of them.

    A ring sends each gradient ``2 * (count - 1) / count`` times over a GPU's link (Patarasuk and
    Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).

    Args:
        gpus: GPUs that would share the step, of about the same speed.
        flops_each: Matrix work per GPU of a shared step, in FLOP.
        num_parameters: Number of gradients that the all-reduce adds up.
    """
    count = len(gpus)
    chip = find_chip(gpus[0].name, memory_bytes=gpus[0].memory_bytes)
    rate, bandwidth = _RATE_OF_UNKNOWN_FLOPS, _BANDWIDTH_BETWEEN_PROCESSORS
    if chip is not None:
        if half := chip.bf16 or chip.fp16:
            rate = half * (chip.attainable or 1.0) * 1e12
        bandwidth = chip.all_reduce_8 or bandwidth
    sent_bytes = 2 * (count - 1) / count * _GRADIENT_BYTES * num_parameters
    return Sharing(
        saved_s=flops_each * (count - 1) / rate,
        cost_s=_LATENCY_S + sent_bytes / (bandwidth * 1e9),
    )

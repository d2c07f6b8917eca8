"""Groups networks into stacks by shape, work and memory, each with its reason."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import torch

from tarmac.studies.evaluation.stacked.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tarmac.machine import Device
    from tarmac.studies.evaluation.stacked.network import Network, Shape

# Stacks may take this share of what is free; the rest is for what is allocated and freed in a step.
_MEMORY_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Stack:
    """Networks that train as one.

    Attributes:
        networks: Networks of equal shape, which train together.
        reason: Reason for this grouping, in words.
    """

    networks: tuple[Network, ...]
    reason: str

    def __str__(self) -> str:
        """Return a line such as ``6 x 784-512-512-10, batches of 128: one stack``."""
        return f"{len(self.networks)} x {self.networks[0].shape}: {self.reason}"


def group(
    networks: Sequence[Network],
    device: Device,
    dtype: torch.dtype,
    at_once: int,
    sharing: int,
) -> list[Stack]:
    """Group networks of equal shape: as many as fit, but something for every process.

    Args:
        networks: Networks to group, of any shapes.
        device: Device that the stacks train on.
        dtype: Type of the matrix products, from which a network's memory is estimated.
        at_once: How many stacks train at the same time.
        sharing: How many of them train on the same device.

    Returns:
        Stacks, the largest amount of work first, so that processes end at about the same time.
    """
    by_shape: dict[Shape, list[Network]] = {}
    for network in networks:
        by_shape.setdefault(network.shape, []).append(network)
    all_work = sum(map(_work, networks))
    stacks: list[Stack] = []
    for shape, members in by_shape.items():
        each = _bytes_of_one(shape, dtype)
        room = max(1, int(_MEMORY_SHARE * device.available_bytes / sharing / each))
        share = sum(map(_work, members)) / all_work
        num_wanted = min(math.ceil(at_once * share), len(members))
        num_fitting = -(-len(members) // room)
        num_parts = max(num_wanted, num_fitting)
        if len(members) == 1:
            reason = "alone, no other has its shape"
        elif num_parts == 1:
            reason = "one stack"
        elif num_fitting > num_wanted:
            reason = (
                f"one of {num_parts} stacks: each network takes {each / 2**20:.1f} MiB, "
                f"{device.torch_name} has {device.available_bytes / 2**30:.1f} GiB free"
            )
        else:
            reason = f"one of {num_parts} stacks, so that {at_once} processes have work"
        stacks += [Stack(tuple(part), reason) for part in _cut(members, num_parts)]
    return sorted(stacks, key=lambda stack: -sum(map(_work, stack.networks)))


def _work(network: Network) -> int:
    return network.num_parameters * network.candidate.epochs


def _cut(members: Sequence[Network], num_parts: int) -> list[Sequence[Network]]:
    """Cut into parts of sizes as equal as can be."""
    size, larger = divmod(len(members), num_parts)
    parts, start = [], 0
    for part in range(num_parts):
        stop = start + size + (part < larger)
        parts.append(members[start:stop])
        start = stop
    return parts


def _bytes_of_one(shape: Shape, dtype: torch.dtype) -> int:
    """Estimate what a network takes on its device, without the samples."""
    width = Layout(shape.sizes, 1).num_elements
    item = dtype.itemsize
    # Values and two averages in fp32; gradients, and the values again where that is not fp32.
    parameters = width * (3 * 4 + item * (1 if dtype == torch.float32 else 2))
    # Outputs, with dropout applied, masks and errors; the words that masks are cut from.
    intermediate = 4 * item * shape.batch_size * sum(shape.sizes[1:])
    words = 3 * 2 * shape.batch_size * max(shape.sizes[1:])
    inputs = shape.batch_size * shape.sizes[0] * (1 + 2 * item)
    return parameters + intermediate + words + inputs

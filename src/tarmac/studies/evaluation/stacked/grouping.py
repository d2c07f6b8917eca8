"""Group networks into stacks by shape, work and memory, with a reason for each.

On a CPU, the networks of a stack have one shape. On a GPU they may have any widths and depths: the
fused kernels of `tarmac.kernels` compute them in the same launches.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from tarmac.studies.evaluation.stacked.layout import Layout

if TYPE_CHECKING:
    from tarmac.machine import Device
    from tarmac.studies.evaluation.stacked.network import Network, Shape

# Share of the free memory for stacks; the rest is for the temporary allocations of a step.
_MEMORY_SHARE = 0.5


@dataclasses.dataclass(frozen=True)
class Stack:
    """A stack of networks, which train as one.

    Attributes:
        networks: Networks that train together, the largest amount of work first if their shapes
            differ.
        reason: Reason for this grouping, in words.
    """

    networks: tuple[Network, ...]
    reason: str

    def __str__(self) -> str:
        """Return a line such as ``6 x 784-512-512-10, batches of 128: one stack``."""
        shapes = dict.fromkeys(network.shape for network in self.networks)
        first = self.networks[0].shape
        if len(shapes) == 1:
            return f"{len(self.networks)} x {first}: {self.reason}"
        return (
            f"{len(self.networks)} networks of {len(shapes)} shapes, batches of "
            f"{first.batch_size}: {self.reason}"
        )


def group(
    networks: Sequence[Network],
    device: Device,
    dtype: torch.dtype,
    at_once: int,
    sharing: int,
) -> list[Stack]:
    """Group networks into stacks that fit the memory, with work for every process.

    Args:
        networks: Networks to group, of any shapes.
        device: Device that the stacks train on.
        dtype: Type of the matrix products, from which a network's memory is estimated.
        at_once: Number of stacks that train at the same time.
        sharing: Number of those stacks that share a device.

    Returns:
        Stacks, the largest amount of work first, so that processes end at about the same time.
    """
    mixes = device.type == "cuda"
    groups: dict[object, list[Network]] = {}
    for network in networks:
        key = network.shape.mixing_key if mixes else network.shape
        groups.setdefault(key, []).append(network)
    all_work = sum(map(_work, networks))
    room = _MEMORY_SHARE * device.available_bytes / sharing
    stacks: list[Stack] = []
    for members in groups.values():
        sizes = {network.shape: _bytes_of_one(network.shape, dtype) for network in members}
        all_bytes = sum(sizes[network.shape] for network in members)
        share = sum(map(_work, members)) / all_work
        num_wanted = min(math.ceil(at_once * share), len(members))
        parts = _deal(members, min(max(num_wanted, math.ceil(all_bytes / room)), len(members)))
        while len(parts) < len(members) and any(
            sum(sizes[network.shape] for network in part) > room for part in parts
        ):
            parts = _deal(members, len(parts) + 1)
        num_parts = len(parts)
        if len(members) == 1:
            reason = "alone, no other has its shape"
        elif num_parts == 1:
            reason = "one stack"
        elif num_parts > num_wanted:
            takes = "each network takes" if len(sizes) == 1 else "a network takes up to"
            reason = (
                f"one of {num_parts} stacks: {takes} {max(sizes.values()) / 2**20:.1f} MiB, "
                f"{device.torch_name} has {device.available_bytes / 2**30:.1f} GiB free"
            )
        else:
            reason = f"one of {num_parts} stacks, so that {at_once} processes have work"
        stacks += [Stack(tuple(part), reason) for part in parts]
    return sorted(stacks, key=lambda stack: -sum(map(_work, stack.networks)))


def by_shape(networks: Sequence[Network]) -> list[tuple[Network, ...]]:
    """Split a stack into stacks of one shape each, in the order of their first networks."""
    shapes: dict[Shape, list[Network]] = {}
    for network in networks:
        shapes.setdefault(network.shape, []).append(network)
    return [tuple(members) for members in shapes.values()]


def _work(network: Network) -> int:
    return network.num_parameters * network.candidate.epochs


def _deal(members: Sequence[Network], num_parts: int) -> list[Sequence[Network]]:
    """Split networks into parts of nearly equal number and work; one shape keeps its order."""
    if len({network.shape for network in members}) > 1:
        ordered = sorted(members, key=lambda network: (-_work(network), network.candidate.number))
        return [ordered[first::num_parts] for first in range(num_parts)]
    size, larger = divmod(len(members), num_parts)
    parts, start = [], 0
    for part in range(num_parts):
        stop = start + size + (part < larger)
        parts.append(members[start:stop])
        start = stop
    return parts


def _bytes_of_one(shape: Shape, dtype: torch.dtype) -> int:
    """Estimate a network's bytes on its device, without the samples."""
    width = Layout(shape.sizes, 1).num_elements
    item = dtype.itemsize
    # Values and two averages in fp32; gradients, and a copy of the values unless dtype is fp32.
    parameters = width * (3 * 4 + item * (1 if dtype == torch.float32 else 2))
    # Outputs before and after dropout, masks and errors; then the random words of the masks.
    intermediate = 4 * item * shape.batch_size * sum(shape.sizes[1:])
    words = 3 * 2 * shape.batch_size * max(shape.sizes[1:])
    inputs = shape.batch_size * shape.sizes[0] * (1 + 2 * item)
    return parameters + intermediate + words + inputs

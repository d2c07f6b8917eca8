"""The layout of a stack's parameters in one flat tensor, layer by layer."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tarmac.kernels import Architecture

# Layers begin at multiples of this many elements, so that matrix units load aligned tiles.
_ALIGNMENT = 32


@dataclasses.dataclass(frozen=True)
class Segment:
    """The position of one parameter of all networks.

    Attributes:
        start: Start index in the flat tensor.
        length: Number of elements per network. The networks follow each other without gaps, as
            batched matrix products need: a copy before each product would take longer than the
            product.
    """

    start: int
    length: int

    def rows(self, flat: torch.Tensor, num_networks: int) -> torch.Tensor:
        """View this parameter as ``[networks, length]``."""
        return flat[self.start :][: num_networks * self.length].view(num_networks, self.length)


class Layout:
    """The positions of all parameters: weights and biases, layer by layer.

    Weights are ``[in, out]``, the transpose of `torch.nn.Linear`'s. This makes the product of the
    first layer, the largest product without an input gradient, a third faster on AMX.

    Args:
        sizes: Features of each layer; see `Architecture`.
        num_networks: Number of networks in the stack.

    Attributes:
        num_elements: Number of elements of a flat tensor, padding between parameters included.
        segments: Segments of the weights and the biases in turns, layer by layer.
    """

    def __init__(self, sizes: Sequence[int], num_networks: int) -> None:
        self._pairs = [*itertools.pairwise(sizes)]
        self._num_networks = num_networks
        lengths = [n for inner, outer in self._pairs for n in (inner * outer, outer)]
        blocks = (-(-num_networks * n // _ALIGNMENT) * _ALIGNMENT for n in lengths)
        *starts, self.num_elements = itertools.accumulate(blocks, initial=0)
        self.segments = [Segment(a, n) for a, n in zip(starts, lengths, strict=True)]

    def weights(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """View each layer's weights, ``[networks, in, out]``."""
        rows = self.rows(flat)[::2]
        return [row.view(-1, *pair) for row, pair in zip(rows, self._pairs, strict=True)]

    def biases(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """View each layer's biases, ``[networks, out]``."""
        return self.rows(flat)[1::2]

    def rows(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """View each parameter, ``[networks, length]``."""
        return [segment.rows(flat, self._num_networks) for segment in self.segments]

    def gather(self, networks: Iterable[Architecture], device: torch.device) -> torch.Tensor:
        """Return the networks' own parameters on a device, fp32 ``[num_elements]``.

        Args:
            networks: All networks of the stack; each is released before the next is built, so that
                a thousand need the memory of one.
            device: Device of the result, which also transposes the weights.
        """
        flat = torch.zeros(self.num_elements, device=device)
        weights, biases = self.weights(flat), self.biases(flat)
        for index, network in enumerate(networks):
            for layer, (weight, bias) in enumerate(network.parameters):
                weights[layer][index].copy_(weight.to(device).T)
                biases[layer][index].copy_(bias)
        return flat


def decays(
    names: Sequence[tuple[str, str]], patterns: Mapping[str, float], num_segments: int
) -> list[float]:
    """Return each segment's weight decay, by the first pattern that its name matches."""
    if not patterns:
        return [0.0] * num_segments
    flat = [name for pair in names for name in pair]
    return [
        next((decay for pattern, decay in patterns.items() if fnmatchcase(name, pattern)), 0.0)
        for name in flat
    ]

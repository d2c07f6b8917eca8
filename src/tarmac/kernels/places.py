"""Where the values of networks of different shapes begin in the flat tensors of a stack."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from tarmac.kernels.network import FusedNetwork
from tarmac.kernels.storage import Layer, slots_of

# Fields of a layer of a network, as `mlp` reads them.
_NUM_FIELDS = 16


def layer_shapes(networks: Sequence[FusedNetwork]) -> list[list[tuple[int, int]]]:
    """Return output and input features by layer and network.

    The last layer is every network's logits. Networks of fewer hidden layers than the deepest lack
    the layers before it: their shape is ``(0, 0)``.
    """
    num_hidden = max(len(network.activations) for network in networks)
    columns = []
    for network in networks:
        pairs = [(outer, inner) for inner, outer in itertools.pairwise(network.sizes)]
        missing = num_hidden + 1 - len(pairs)
        columns.append([*pairs[:-1], *[(0, 0)] * missing, pairs[-1]])
    return [[*layer] for layer in zip(*columns, strict=True)]


class Places:
    """The places of a stack's values.

    Args:
        networks: Networks of the stack, in order.
        layers: Layers of all networks, from the input to the logits.
        num_rows: Number of rows between layers.

    Attributes:
        outputs: Starts of each layer's outputs, by layer and network, in elements.
        num_hidden_elements: Number of outputs of all hidden layers.
        num_elements: Number of outputs of all layers.
    """

    def __init__(
        self, networks: Sequence[FusedNetwork], layers: Sequence[Layer], num_rows: int
    ) -> None:
        self._networks = networks
        self._layers = layers
        sizes = [num_rows * stored[0] for layer in layers for stored in layer.stored]
        *starts, self.num_elements = itertools.accumulate(sizes, initial=0)
        count = len(networks)
        self.outputs = [starts[first : first + count] for first in range(0, len(starts), count)]
        self.num_hidden_elements = self.outputs[-1][0]

    def table(self) -> torch.Tensor:
        """Return PLACES of `mlp`, int64 ``[networks, layers, 16]``."""
        table = torch.zeros(len(self._networks), len(self._layers), _NUM_FIELDS, dtype=torch.int64)
        for row, (network, slots) in enumerate(
            zip(self._networks, slots_of(self._networks), strict=True)
        ):
            last_hidden = len(network.activations) - 1
            for column, layer in enumerate(self._layers):
                is_last = column == len(self._layers) - 1
                below = last_hidden if is_last else column - 1
                fields = (
                    *(*layer.stored[row], *layer.true[row], below),
                    *layer.values.starts(row),
                    self.outputs[column][row],
                    self.outputs[below][row] if below >= 0 else 0,
                    *_of_slots(layer, slots),
                )
                table[row, column, : len(fields)] = torch.tensor(fields)
        return table


def _of_slots(layer: Layer, slots: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return where averages and second moments begin: of weights, then of biases."""
    average, moment = slots
    averages = layer.averages.starts(average) if average >= 0 else (0, 0)
    moments = layer.moments.starts(moment) if moment >= 0 else (0, 0)
    return averages[0], moments[0], averages[1], moments[1]

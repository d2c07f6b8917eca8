"""The settings of a network in a fused stack."""

from __future__ import annotations

import dataclasses

from tarmac.workloads import Optimizer

# The index of an activation is its code in the kernels.
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")

# A program holds a whole row of logits; more classes would not fit in its registers.
MAX_CLASSES = 256


class UnfitNetworkError(Exception):
    """The error for a network that the kernels do not support; its message says why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FusedNetwork:
    """The settings that may differ between the networks of a stack, without the weights.

    Attributes:
        sizes: Features of the input, of each hidden layer, and of the logits.
        activations: Activation of each hidden layer: ``relu``, ``elu``, ``tanh`` or ``sigmoid``.
        dropouts: Dropout probability after each hidden layer, 0 for none.
        optimizer: Optimizer with its settings. `FusedStack.begin` takes the learning rates.
        seed: Seed of the network's dropout. A network draws the same alone, in any stack, and after
            a resume.
        weight_decay: L2 penalty factors of each layer: for the weights, then for the biases. None
            for no penalty.
    """

    sizes: tuple[int, ...]
    activations: tuple[str, ...]
    dropouts: tuple[float, ...]
    optimizer: Optimizer
    seed: int
    weight_decay: tuple[tuple[float, float], ...] | None = None

    def __post_init__(self) -> None:
        if len(self.activations) != len(self.dropouts):
            raise ValueError(
                f"{len(self.activations)} activations and {len(self.dropouts)} dropouts, expected "
                "one of each for every hidden layer"
            )
        if len(self.activations) != len(self.sizes) - 2:
            raise ValueError(
                f"a network of {len(self.activations)} hidden layers, but the widths are "
                f"{self.sizes}"
            )
        if min(self.sizes) < 1:
            raise UnfitNetworkError(f"the widths are {self.sizes}, expected at least 1 each")
        if self.sizes[-1] > MAX_CLASSES:
            raise UnfitNetworkError(f"{self.sizes[-1]} classes, expected at most {MAX_CLASSES}")
        for name in self.activations:
            if name not in ACTIVATIONS:
                raise UnfitNetworkError(f"activation {name}, expected {', '.join(ACTIVATIONS)}")
        for probability in self.dropouts:
            if not 0 <= probability <= 1:
                raise ValueError(f"dropout is {probability}, expected 0 to 1")

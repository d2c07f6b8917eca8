"""What a network of a fused stack is, in values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.workloads import Optimizer

# In the order of their codes in the kernels.
ACTIVATIONS = ("relu", "elu", "tanh", "sigmoid")

# A program holds a row of logits as a whole; more classes would not fit its registers.
MAX_CLASSES = 256


class UnfitNetworkError(Exception):
    """A network that cannot train with others as one; its text says why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FusedNetwork:
    """A network of a stack: all that may differ from its neighbours but its weights.

    Attributes:
        activations: Activation of each hidden layer: ``relu``, ``elu``, ``tanh`` or ``sigmoid``.
        dropouts: The probability after each hidden layer, 0 for none.
        optimizer: Its values; the rates of single steps are given with the steps.
        seed: Seed of the network's dropout. A network draws the same alone, in any stack, and
            resumed.
        weight_decay: Factors of the L2 penalty by layer: of the weights, then of the biases. None
            for no penalty.
    """

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
        for name in self.activations:
            if name not in ACTIVATIONS:
                raise UnfitNetworkError(f"activation {name}, expected {', '.join(ACTIVATIONS)}")
        for probability in self.dropouts:
            if not 0 <= probability <= 1:
                raise ValueError(f"dropout is {probability}, expected 0 to 1")

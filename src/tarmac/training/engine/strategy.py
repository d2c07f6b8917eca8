"""What the engine asks of a strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from tarmac.training.engine.optimizers import FlatOptimizer
    from tarmac.training.engine.parameters import Parameters
    from tarmac.training.engine.replica import Replica

__all__ = ["Strategy"]


class Strategy(Protocol):
    """Turns the gradients of replicas into one update.

    Attributes:
        parameters: What the optimizer updates.
        optimizer: Their optimizer.
    """

    parameters: Parameters
    optimizer: FlatOptimizer

    @property
    def replicas(self) -> Sequence[Replica]:
        """Those in this process."""
        ...

    def step(
        self,
        scale: float,
        batches: Sequence[Iterator[tuple[torch.Tensor, ...]]],
        sizes: Sequence[Sequence[int]],
    ) -> None:
        """Do one step of the training.

        Args:
            scale: One over the size of the global batch.
            batches: Each replica's micro-batches, from this step's first on.
            sizes: How many samples each replica's micro-batches of this step have.
        """
        ...

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set parameters and buffers of all replicas in this process."""
        ...

    def seed(self, seed: int) -> None:
        """Start the replicas' draws, such as dropout's, each with its own."""
        ...

    def random_states(self) -> list[dict[str, torch.Tensor]]:
        """Return the state of every replica's generators; all ranks must call it."""
        ...

    def set_random_states(self, states: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Go back to what `random_states` returned."""
        ...

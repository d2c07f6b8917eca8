"""The interface of a strategy: how replicas on several devices make one update."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import torch
    from torch import nn

    from tarmac.training.engine.parameters import Parameters
    from tarmac.training.engine.replica import Replica
    from tarmac.training.engine.step_runner import StepRunner
    from tarmac.training.engine.team import Team
    from tarmac.training.engine.update import AnyUpdate
    from tarmac.training.plan import Plan


class Strategy(Protocol):
    """Turns the gradients of replicas into one update.

    Attributes:
        parameters: Parameters that the optimizer updates.
        optimizer: Their optimizer, with what else happens in an update.
    """

    parameters: Parameters
    optimizer: AnyUpdate

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
        """Do one step: gradients of every replica's micro-batches, their sum, and the update.

        Args:
            scale: One over the size of the global batch.
            batches: Each replica's micro-batches, from this step's first on.
            sizes: How many samples each replica's micro-batches of this step have; 0 for a replica
                without a part in a last batch that is smaller than the others.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class StrategySpec:
    """A strategy's name, how it is built, and what a plan must know of it.

    Attributes:
        name: Name of the strategy, as in ``--strategy NAME``.
        build: Makes the strategy of a plan, the model on the CPU with its first weights, and the
            team.
        process_per_device: Whether each device has a process of its own, which Tarmac starts unless
            a launcher such as torchrun has. Otherwise one process computes on all devices.
        max_devices: The most that it can use; None for any number.
        copies_model: Whether it makes copies of the model, so that one that cannot be copied is
            refused before anything starts.
        syncs_batchnorm: Whether ``sync_batchnorm`` can be asked of it.
        shards_model: Whether each rank has only a part of every parameter. Then all ranks call the
            model equally often, checkpoints are written by all, and any number of ranks reads them.
        runner: Given what ``build`` made, returns what computes its steps; by default its `step`
            is called for one after another.
    """

    name: str
    build: Callable[[Plan, nn.Module, Team], Strategy]
    process_per_device: bool = False
    max_devices: int | None = None
    copies_model: bool = False
    syncs_batchnorm: bool = True
    shards_model: bool = False
    runner: Callable[[Any], StepRunner] | None = None

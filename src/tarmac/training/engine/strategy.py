"""The interface of a strategy, which makes one update from replicas on several devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.step_runner import StepRunner
from tarmac.training.engine.team import Team
from tarmac.training.engine.update import AnyUpdate
from tarmac.training.plan import Plan


class Strategy(Protocol):
    """An interface that turns the gradients of replicas into one update.

    Attributes:
        parameters: Parameters that the optimizer updates.
        optimizer: Optimizer of the parameters, with clipping and averaging.
    """

    parameters: Parameters
    optimizer: AnyUpdate

    @property
    def replicas(self) -> Sequence[Replica]:
        """The replicas in this process."""
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
            batches: Each replica's iterator of micro-batches, from this step on.
            sizes: Number of samples in each replica's micro-batches of this step; 0 for a replica
                without samples in a smaller last batch.
        """
        ...

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set parameters and buffers of all replicas in this process."""
        ...

    def seed(self, seed: int) -> None:
        """Seed each replica's draws, such as dropout's, with a seed of its own."""
        ...

    def random_states(self) -> list[dict[str, torch.Tensor]]:
        """Return the state of every replica's generators; all ranks must call it."""
        ...

    def set_random_states(self, states: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Restore the states that `random_states` returned."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class StrategySpec:
    """A strategy's name, its builder, and the facts that a plan needs.

    Attributes:
        name: Name of the strategy, as in ``--strategy NAME``.
        build: Builder of the strategy, from a plan, the model on the CPU with its initial weights,
            and the team.
        process_per_device: Whether each device has a process of its own, started by Tarmac or by a
            launcher such as torchrun. Otherwise one process computes on all devices.
        max_devices: Maximum number of devices; None for any number.
        copies_model: Whether the strategy copies the model. A model that cannot be copied is then
            refused before anything starts.
        syncs_batchnorm: Whether the strategy supports ``sync_batchnorm``.
        shards_model: Whether each rank has only a shard of every parameter. Then all ranks call the
            model equally often, all write the checkpoints, and any number of ranks can read them.
        runner: Function that returns a step runner for the strategy from ``build``; by default the
            strategy's `step` is called for each step.
    """

    name: str
    build: Callable[[Plan, nn.Module, Team], Strategy]
    process_per_device: bool = False
    max_devices: int | None = None
    copies_model: bool = False
    syncs_batchnorm: bool = True
    shards_model: bool = False
    runner: Callable[[Any], StepRunner] | None = None

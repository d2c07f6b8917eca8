"""`single` and `ddp`: one replica in each process, gradients all-reduced over processes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from tarmac.training.engine.fused import FusedSteps
from tarmac.training.engine.many_steps import ManySteps
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parts import Parts
from tarmac.training.engine.recorder import Graphed, GraphRecorder
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.step_by_step import StepByStep
from tarmac.training.engine.sync_norm import synchronise_norms
from tarmac.training.engine.update import Update, build_update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn

    from tarmac.training.engine.step_runner import StepRunner
    from tarmac.training.engine.team import Team
    from tarmac.training.engine.update import AnyUpdate
    from tarmac.training.plan import Plan


class AllReduce:
    """Adds the gradients up over all processes, each of which then does the same update.

    All gradients are one tensor, so a step sends one message. A team of one sends none: that is
    the strategy `single`.

    Args:
        plan: Training plan, with the workload's recipe, the devices and the precision.
        model: On the CPU, with the first weights.
        team: All processes of the training, each with a replica.
    """

    def __init__(self, plan: Plan, model: nn.Module, team: Team) -> None:
        device = torch.device(plan.devices[team.local_rank].torch_name)
        is_synchronised = plan.sync_batchnorm and team.world_size > 1
        if is_synchronised:
            model = synchronise_norms(model, device, team)
        replica = Replica(plan, model, device, team.rank)
        self.replicas = (replica,)
        self.parameters = replica.parameters
        self.optimizer = build_update(plan.workload.recipe, replica.parameters)
        self._plan = plan
        self._replica = replica
        self._team = team
        # Synchronised normalisations send messages in the forward pass, which all must take part
        # in, also those without a sample; and on GPUs they read values back.
        # Blocks that compute again put generators back, which no graph can.
        self._is_recorded = (
            device.type == "cuda" and not is_synchronised and not plan.activation_checkpointing
        )
        self._parts = Parts(
            replica,
            team.world_size if team.world_size > 1 else 0,
            skip_empty=not is_synchronised,
            is_recorded=self._is_recorded,
        )
        # Functions of what they need and not of this object, which would keep itself alive.
        self._update: Callable[..., None] = partial(_update, replica, self.optimizer, team)
        self._compute_and_update: Callable[..., None] | None = None
        if team.world_size == plan.accumulate == 1:
            self._compute_and_update = partial(_compute_and_update, replica, self.optimizer, team)
        if self._is_recorded:
            self._record_updates()

    def runner(self) -> StepRunner:
        """Return what computes the steps fastest here: see `StepRunner`."""
        plan, team, device = self._plan, self._team, self._replica.device
        optimizer = self.optimizer
        if plan.fused and isinstance(optimizer, FlatOptimizer):
            return FusedSteps(plan, self._replica, optimizer)
        # Several optimizers, and draws that are handed over with the samples, go step by step.
        if not isinstance(optimizer, FlatOptimizer | Update) or not optimizer.takes_a_rate:
            return StepByStep(self)
        # In fp64 the rate is a number, which a graph would keep.
        fits = plan.feed == "resident" and optimizer.takes_rate_tensors
        fits = fits and plan.workload.recipe.augment is None
        if self._is_recorded and fits and team.can_capture:
            return ManySteps(plan, self._replica, optimizer, team, GraphRecorder(device))
        return StepByStep(self)

    def step(
        self,
        scale: float,
        batches: Sequence[Iterator[tuple[torch.Tensor, ...]]],
        sizes: Sequence[Sequence[int]],
    ) -> None:
        """Do one step; see `Strategy`."""
        if self._compute_and_update is not None:
            self._compute_and_update(scale, *next(batches[0]))
            return
        self._parts.compute(scale, batches[0], sizes[0])
        if self._team.world_size > 1:
            self._team.all_reduce(self.parameters.reduced)
        self._update()

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set parameters and buffers."""
        self.parameters.load_state_dict(state)

    def seed(self, seed: int) -> None:
        """Start the replica's draws; those of replica 0 go on from the weights'."""
        self._replica.seed(seed)

    def random_states(self) -> list[dict[str, torch.Tensor]]:
        """Return the state of every replica's generators, by device type; all ranks must call."""
        return self._team.all_gather(self._replica.random_state())

    def set_random_states(self, states: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Go back to what `random_states` returned."""
        self._replica.set_random_state(states[self._team.rank])

    def _record_updates(self) -> None:
        """Let what follows a step's gradients be a graph; a message stays between two of them."""
        device = self._replica.device
        if not self.optimizer.takes_rate_tensors:
            self._compute_and_update = None
            return
        self._update = Graphed(self._update, device)
        if self._compute_and_update is not None:
            self._compute_and_update = Graphed(self._compute_and_update, device)


def _update(replica: Replica, optimizer: AnyUpdate, team: Team) -> None:
    if team.world_size > 1:
        replica.shared.unpack()
    optimizer.step()
    replica.parameters.publish()


def _compute_and_update(
    replica: Replica, optimizer: AnyUpdate, team: Team, scale: float, *handed: torch.Tensor
) -> None:
    replica.compute(scale, *handed)
    _update(replica, optimizer, team)

"""`single` and `ddp`: one replica in each process, gradients all-reduced over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import nn

from tarmac.training.engine.fused import FusedSteps
from tarmac.training.engine.many_steps import ManySteps
from tarmac.training.engine.optimizers import FlatOptimizer
from tarmac.training.engine.parts import Parts
from tarmac.training.engine.recorder import Graphed, GraphRecorder
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.step_by_step import StepByStep
from tarmac.training.engine.step_runner import StepRunner
from tarmac.training.engine.sync_norm import synchronise_norms
from tarmac.training.engine.team import Team
from tarmac.training.engine.update import AnyUpdate, Update, build_update
from tarmac.training.plan import Plan


class AllReduce:
    """The strategy that all-reduces gradients, after which each process does the same update.

    All gradients are one tensor, so a step sends one message. A team of one process sends none:
    that is the strategy `single`.

    Args:
        plan: Training plan, with the workload's recipe, the devices and the precision.
        model: Model on the CPU, with its initial weights.
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
        # A CUDA graph cannot hold synchronised normalisations: they communicate in the forward
        # pass, which all ranks must join even without a sample, and on GPUs they read values back.
        # Nor can it hold activation checkpointing, which restores the generators' states.
        self._is_recorded = (
            device.type == "cuda" and not is_synchronised and not plan.activation_checkpointing
        )
        self._parts = Parts(
            replica,
            team.world_size if team.world_size > 1 else 0,
            skip_empty=not is_synchronised,
            is_recorded=self._is_recorded,
        )
        # Bind only the needed objects: methods bound to self would make a reference cycle.
        self._update: Callable[..., None] = partial(_update, replica, self.optimizer, team)
        self._compute_and_update: Callable[..., None] | None = None
        if team.world_size == plan.accumulate == 1:
            self._compute_and_update = partial(_compute_and_update, replica, self.optimizer, team)
        if self._is_recorded:
            self._record_updates()

    def runner(self) -> StepRunner:
        """Return the fastest step runner for this plan; see `StepRunner`."""
        plan, team, device = self._plan, self._team, self._replica.device
        optimizer = self.optimizer
        if plan.fused and isinstance(optimizer, FlatOptimizer):
            return FusedSteps(plan, self._replica, optimizer)
        # Several optimizers need single steps.
        if not isinstance(optimizer, FlatOptimizer | Update) or not optimizer.takes_a_rate:
            return StepByStep(self)
        # In fp64 the learning rate is a Python number, which a graph would record as a constant.
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
        """Seed the replica's generators; replica 0 continues the generator of the weights."""
        self._replica.seed(seed)

    def random_states(self) -> list[dict[str, torch.Tensor]]:
        """Return the state of every replica's generators, by device type; all ranks must call."""
        return self._team.all_gather(self._replica.random_state())

    def set_random_states(self, states: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Restore the states that `random_states` returned."""
        self._replica.set_random_state(states[self._team.rank])

    def _record_updates(self) -> None:
        """Record the update after the gradients as a graph; the all-reduce stays outside."""
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

"""`single` and `ddp`: one replica in each process, gradients all-reduced over processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tarmac.training.engine.cuda_graph import GraphedStep
from tarmac.training.engine.parameter_groups import build_optimizer
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.sync_norm import synchronise_norms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn

    from tarmac.training.engine.team import Team
    from tarmac.training.plan import Plan

__all__ = ["AllReduce"]


class AllReduce:
    """Adds the gradients up over all processes, each of which then does the same update.

    All gradients are one tensor, so a step sends one message. A team of one sends none: that is
    the strategy `single`.

    Args:
        plan: What to do.
        model: On the CPU, with the first weights.
        team: All processes.
    """

    def __init__(self, plan: Plan, model: nn.Module, team: Team) -> None:
        device = torch.device(plan.devices[team.local_rank].torch_name)
        is_synchronised = plan.sync_batchnorm and team.world_size > 1
        if is_synchronised:
            model = synchronise_norms(model, device, team)
        replica = Replica(plan, model, device, team.rank)
        self.replicas = (replica,)
        self.parameters = replica.parameters
        self.optimizer = build_optimizer(plan.workload.recipe, replica.parameters.groups)
        self._replica = replica
        self._team = team
        # Synchronised normalisations send messages in the forward pass, which all must take part
        # in, also those without a sample.
        self._skip_empty = not is_synchronised
        self._is_whole = team.world_size == plan.accumulate == 1
        self._compute: Callable[..., None] = replica.compute
        self._update: Callable[..., None] = self._update_now
        self._do_all: Callable[..., None] = self._do_all_now
        # A compiled model brings CUDA graphs' savings by itself, with fewer kernels; a graph holds
        # no messages; and in fp64 the rate is no tensor.
        can_record = self._skip_empty and not plan.compile and plan.precision != "fp64"
        if replica.device.type == "cuda" and can_record:
            self._do_all = GraphedStep(self._do_all_now, replica.device)
            self._update = GraphedStep(self._update_now, replica.device)
            if plan.accumulate == 1:
                self._compute = GraphedStep(replica.compute, replica.device)

    def step(
        self,
        scale: float,
        batches: Sequence[Iterator[tuple[torch.Tensor, ...]]],
        sizes: Sequence[Sequence[int]],
    ) -> None:
        """Do one step; see `Strategy`."""
        if self._is_whole:
            self._do_all(scale, *next(batches[0]))
            return
        self._compute_gradients(scale, batches[0], sizes[0])
        if self._team.world_size > 1:
            self._replica.shared.pack(self._team.rank, self._team.world_size)
            self._team.all_reduce(self.parameters.reduced)
            self._replica.shared.unpack()
        self._update(0.0)

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

    def _compute_gradients(
        self, scale: float, batches: Iterator[tuple[torch.Tensor, ...]], sizes: Sequence[int]
    ) -> None:
        computed = 0
        for size in sizes:
            handed = next(batches)
            if size == 0 and self._skip_empty:
                continue
            if computed:
                self._replica.compute(scale, *handed, add=True)
            else:
                self._compute(scale, *handed)
            computed += 1
        if not computed:
            self.parameters.clear_gradients()

    def _do_all_now(self, scale: float, *handed: torch.Tensor) -> None:
        self._replica.compute(scale, *handed)
        self._update_now(scale)

    def _update_now(self, _constant: float) -> None:
        self.optimizer.step()
        self.parameters.publish()

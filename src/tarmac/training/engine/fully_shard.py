"""`fsdp`: parameters, gradients and optimizer state in shards, by PyTorch's `fully_shard`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from tarmac.training.engine.parameter_groups import build_optimizer
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.parts import Parts
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.sharded_parameters import ShardedParameters, ShardedUpdate
from tarmac.training.engine.sync_norm import synchronise_norms
from tarmac.training.engine.team import Team
from tarmac.training.engine.update import AnyUpdate
from tarmac.training.plan import Plan


class FullyShard:
    """The strategy that shards every parameter over the ranks, with gradients and optimizer state.

    A block's parameters are gathered for its computation and freed afterwards. A reduce-scatter
    gives each rank its shard of the block's gradients. Every rank runs the model equally often,
    even without samples, as the other ranks wait for its shards.

    Args:
        plan: Training plan, with the recipe, the devices and the precision.
        model: Model on the CPU, with its initial weights.
        team: All processes of a process group.
    """

    def __init__(self, plan: Plan, model: nn.Module, team: Team) -> None:
        device = torch.device(plan.devices[team.local_rank].torch_name)
        _share_weights(model, team)
        if plan.sync_batchnorm and team.world_size > 1:
            model = synchronise_norms(model, device, team)
        recipe = plan.workload.recipe
        group = dist.group.WORLD
        assert group is not None, "each rank is a process of a group"
        mesh = DeviceMesh.from_group(group, device.type)
        shard = partial(ShardedParameters, recipe=recipe, mesh=mesh, fp16=plan.precision == "fp16")
        self._replica = Replica(plan, model, device, team.rank, shard=shard)
        self.replicas = (self._replica,)
        parameters = self._replica.parameters
        assert isinstance(parameters, ShardedParameters)
        self.parameters: Parameters = parameters
        optimizer = build_optimizer(recipe, parameters.groups)
        self.optimizer: AnyUpdate = ShardedUpdate(recipe, optimizer, parameters, team)
        self._team = team
        self._parts = Parts(self._replica, team.world_size, skip_empty=False)

    def step(
        self,
        scale: float,
        batches: Sequence[Iterator[tuple[torch.Tensor, ...]]],
        sizes: Sequence[Sequence[int]],
    ) -> None:
        """Do one step; see `Strategy`."""
        self._parts.compute(scale, batches[0], sizes[0])
        self._team.all_reduce(self.parameters.extra)
        self._replica.shared.unpack()
        self.optimizer.step()

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
        """Restore the states of `random_states`; ranks without a state keep their seed's."""
        if own := states[self._team.rank]:
            self._replica.set_random_state(own)


@torch.no_grad()
def _share_weights(model: nn.Module, team: Team) -> None:
    """Broadcast the first rank's weights, as a model may draw its weights without the seed."""
    if team.world_size == 1:
        return
    for value in (*model.parameters(), *model.buffers()):
        if not team.is_main:
            value.zero_()
        team.all_reduce(value)

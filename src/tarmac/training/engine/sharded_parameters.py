"""A model's parameters in shards: each rank of a team keeps its shard of every parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from tarmac.errors import TarmacError
from tarmac.training.engine.blocks import find_blocks
from tarmac.training.engine.loss_scale import LossScale
from tarmac.training.engine.parameter_groups import AnyOptimizer
from tarmac.training.engine.parameters import Group, Parameters, check_patterns, key_of
from tarmac.training.engine.shared_state import SharedState
from tarmac.training.engine.team import Team
from tarmac.training.engine.update import NORM_EPS, Update
from tarmac.workloads import Recipe

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

# Words in PyTorch's errors for operations that DTensors do not support.
_IS_DTENSORS = re.compile("DTensor|[Ss]harding|placement")
_END_OF_SENTENCE = ". "


class ShardedParameters(Parameters):
    """The parameters of a model that PyTorch's `fully_shard` shards, block by block.

    A parameter is cut along its first dimension, as by `torch.chunk`. The whole parameters of a
    block exist only while the block computes. Each parameter is a group of its own, whose values
    and gradients are this rank's shard. So an elementwise optimizer updates only that shard.

    Args:
        model: Model to shard; its parameters become DTensors.
        recipe: Recipe of the training, with its patterns of parameter names.
        mesh: Device mesh of all ranks, over which parameters are sharded.
        fp16: Whether the model computes in fp16; the loss must then be multiplied by `loss_scale`.

    Raises:
        RequestError: A pattern matches no parameter, or the model has nothing to train.
    """

    def __init__(
        self, model: nn.Module, recipe: Recipe, mesh: DeviceMesh, *, fp16: bool = False
    ) -> None:
        owners = tuple(recipe.parameter_groups)
        names = tuple(name for name, p in model.named_parameters() if p.requires_grad)
        check_patterns(recipe.weight_decay, owners, names)
        for parameter in model.parameters():
            # `fully_shard` supports no other memory order.
            parameter.data = parameter.data.contiguous()
        for module in (*find_blocks(model).values(), model):
            fully_shard(module, mesh=mesh, reshard_after_forward=True)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                # A sample's loss is scaled by the global batch, so gradients are sums, not means.
                module.set_gradient_divide_factor(1.0)
                # Gloo has no sum with a factor.
                module.set_force_sum_reduction_for_comms(enable=True)
        self._model = model
        self._leaves = []
        self.groups = []
        self.frozen = []
        for name, leaf in model.named_parameters():
            if not leaf.requires_grad:
                continue
            leaf.grad = torch.zeros_like(leaf)
            values, gradients = local_of(leaf.detach()), local_of(leaf.grad)
            owner, decay = key_of(name, owners, recipe.weight_decay, recipe.default_decays)
            group = Group(
                decay,
                values.view(-1),
                gradients.view(-1),
                owner=owner,
                shapes={name: values.shape},
                views={name: (leaf.detach(), leaf.grad)},
            )
            self.groups.append(group)
            self._leaves.append(leaf)
        first = self.groups[0].values
        self.extra = torch.zeros(SharedState.size_of(model), dtype=first.dtype, device=first.device)
        self.reduced, self.values = self.extra, first[:0]
        self.loss_scale = LossScale(first.device) if fp16 else None

    @property
    def num_parameters(self) -> int:
        """The number of trained parameters, over all ranks."""
        return sum(leaf.numel() for leaf in self._leaves)

    def differentiate(self, loss: torch.Tensor, *, add: bool = False) -> None:
        """Compute this rank's shard of the gradients, summed over all ranks; all must call it."""
        if not add:
            self.clear_gradients()
        loss.backward()  # type: ignore[no-untyped-call]  # PyTorch has no type

    def clear_gradients(self) -> None:
        """Set all gradients to zero."""
        torch._foreach_zero_([group.gradients for group in self.groups])

    def publish(self) -> None:
        """Do nothing: blocks gather their parameters when they compute."""

    def publish_frozen(self) -> None:
        """Do nothing: no parameter has a half-precision copy."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return parameters, as DTensors, and buffers by name."""
        return {name: value.detach() for name, value in self._model.state_dict().items()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set every value of `state_dict`, from whole tensors or from shards of the same ranks."""
        for name, value in self.state_dict().items():
            local_of(value).copy_(own_part(state[name], value))

    def whole(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield whole values of `state_dict`, one at a time; all ranks must consume them all."""
        for name, value in self.state_dict().items():
            yield name, value.full_tensor() if isinstance(value, DTensor) else value


class ShardedUpdate(Update):
    """An optimizer of shards, with clipping by the norm over all ranks.

    Args:
        recipe: Recipe of the training, without a moving average.
        optimizer: Optimizer of the parameters' groups on this rank.
        parameters: Sharded parameters, with gradients summed over all ranks when `step` is called.
        team: All ranks of the training, over which the norm is summed.
    """

    # PyTorch gathers the parameters between layers, which a graph cannot hold.
    _can_be_recorded = False

    def __init__(
        self,
        recipe: Recipe,
        optimizer: AnyOptimizer,
        parameters: ShardedParameters,
        team: Team,
    ) -> None:
        super().__init__(recipe, optimizer, parameters)
        self._groups = parameters.groups
        self._team = team

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state by name; state of sharded parameters as DTensors."""
        return {name: self._as_shard(name, value) for name, value in super().state().items()}

    def load_state(self, saved: Mapping[str, torch.Tensor]) -> None:
        """Set every tensor of `state`, from shards of the same ranks."""
        super().load_state(
            {
                name: local_of(value).reshape(-1)
                if self._shaped_as(name) is not None and value.dim()
                else value
                for name, value in saved.items()
            }
        )

    def template(self, name: str, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
        """Return an empty tensor for a tensor of `state`, even before the optimizer creates it."""
        like: torch.Tensor | None = self._shaped_as(name)
        if like is None:
            owner = name.split("|", maxsplit=1)[0]
            for group in self._groups:
                for own, (values, _) in group.views.items():
                    if owner in (own, f"{group.owner}.{own}"):
                        like = values
        if like is None or shape != like.shape:
            return torch.empty(shape, dtype=dtype)
        return torch.empty_like(like, dtype=dtype)

    def _as_shard(self, name: str, value: torch.Tensor) -> torch.Tensor:
        like = self._shaped_as(name)
        if like is None or not value.dim():
            return value
        return DTensor.from_local(
            value.view(like.to_local().shape),
            like.device_mesh,
            like.placements,
            run_check=False,
            shape=like.shape,
            stride=like.stride(),
        )

    def _shaped_as(self, name: str) -> DTensor | None:
        """Return the parameter of a flat state tensor, by its name ``[owner.]index.name``.

        Returns None for state of no parameter, such as ``loss_scale.value``.
        """
        if "|" in name:
            return None
        *owner, index, _ = name.split(".")
        if not index.isdecimal():
            return None
        groups = [g for g in self._groups if not owner or g.owner == int(owner[0])]
        ((values, _),) = groups[int(index)].views.values()
        assert isinstance(values, DTensor)
        return values

    def _step(self, rate: float | torch.Tensor | None) -> None:
        try:
            super()._step(rate)
        except RuntimeError as error:
            if not _IS_DTENSORS.search(str(error)):
                raise
            raise TarmacError(
                "the optimizer uses an operation that sharded parameters do not support: "
                f"{str(error).partition(_END_OF_SENTENCE)[0]}",
                hint="Use --strategy ddp, or an optimizer that updates element by element.",
            ) from error

    def _unscale(self, scale: LossScale) -> torch.Tensor:
        return scale.unscale([group.gradients for group in self._groups], self._team.all_reduce)

    def _clip(self) -> None:
        recipe, gradients = self._recipe, [group.gradients for group in self._groups]
        if recipe.clip_norm:
            squares = torch.stack([g.square().sum(dtype=torch.float64) for g in gradients]).sum()
            self._team.all_reduce(squares)
            factor = (recipe.clip_norm / (squares.sqrt() + NORM_EPS)).clamp_(max=1.0)
            torch._foreach_mul_(gradients, factor.to(gradients[0].dtype))
        if recipe.clip_value:
            torch._foreach_clamp_min_(gradients, -recipe.clip_value)
            torch._foreach_clamp_max_(gradients, recipe.clip_value)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's shard of a DTensor; any other tensor unchanged."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def own_part(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the rank's shard of a value, cut as ``like``, which has the same whole shape."""
    if isinstance(value, DTensor) or not isinstance(like, DTensor):
        return local_of(value)
    chunks = value.chunk(like.device_mesh.size())
    rank = like.device_mesh.get_local_rank()
    return chunks[rank] if rank < len(chunks) else value[:0]

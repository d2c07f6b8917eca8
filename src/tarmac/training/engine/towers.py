"""`towers`: in-process replicas, one on each device, with the parameters on the CPU.

The design is that of TensorFlow's multi-GPU tutorial (tensorflow/models, tutorials/image/cifar10,
cifar10_multi_gpu_train.py). Every device gets its slice of the batch and fresh parameters. The CPU
adds up the gradients and does the update.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import nn

from tarmac.training.engine.model import replicate
from tarmac.training.engine.parameters import Parameters
from tarmac.training.engine.parts import Parts
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.shared_state import SharedState
from tarmac.training.engine.team import Team
from tarmac.training.engine.update import build_update
from tarmac.training.plan import Plan


class Towers:
    """The strategy that keeps the parameters on the CPU, and a replica on every device.

    On GPUs, each device copies its gradients to the CPU on its stream once they are computed, while
    other devices still compute. Fresh parameters go to all devices at once. On the CPU the replicas
    share the parameters' memory.

    Args:
        plan: Training plan, with the recipe, the devices and the precision.
        model: Model on the CPU, with its initial weights.
        team: Team of this single process.
    """

    def __init__(self, plan: Plan, model: nn.Module, team: Team) -> None:
        assert team.world_size == 1, "towers is a strategy of one process"
        recipe = plan.workload.recipe
        self._on_cuda = plan.devices[0].type == "cuda"
        replicas: list[Replica] = []
        for rank, device in enumerate(plan.devices):
            # The first replica on the CPU needs no copy, as the optimizer updates its parameters.
            needs_copy = rank > 0 or self._on_cuda
            copied = replicate(model, plan.workload.name, plan.strategy) if needs_copy else model
            source = replicas[0].parameters if rank and not self._on_cuda else None
            replicas.append(Replica(plan, copied, torch.device(device.torch_name), rank, source))
        self.replicas = tuple(replicas)
        self.parameters = replicas[0].parameters
        self._shared = replicas[0].shared
        if self._on_cuda:
            dtype = self.parameters.values.dtype
            model.to(dtype=dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.parameters = Parameters(
                model,
                weight_decay=recipe.weight_decay,
                owners=tuple(recipe.parameter_groups),
                default_decays=recipe.default_decays,
                bf16=plan.precision == "bf16",
                fp16=plan.precision == "fp16",
                dtype=dtype,
                num_extra=SharedState.size_of(model),
            )
            self._shared = SharedState(model, self.parameters.extra)
            _show_counts(model, of=replicas[0].model)
            self._arriving = [_pinned(self.parameters.reduced) for _ in replicas]
            self._leaving = _pinned(self.parameters.values)
            self._leaving_extra = _pinned(self.parameters.extra)
            if self.parameters.loss_scale is not None:
                self._leaving_scale = _pinned(self.parameters.loss_scale.value)
        self.optimizer = build_update(recipe, self.parameters)
        self._draws = [torch.get_rng_state() for _ in replicas]
        self._parts = [
            Parts(
                replica,
                len(replicas),
                is_recorded=self._on_cuda and not plan.activation_checkpointing,
            )
            for replica in replicas
        ]

    def step(
        self,
        scale: float,
        batches: Sequence[Iterator[tuple[torch.Tensor, ...]]],
        sizes: Sequence[Sequence[int]],
    ) -> None:
        """Do one step; see `Strategy`."""
        self._publish_scale()
        for replica, handed, spans in zip(self.replicas, batches, sizes, strict=True):
            with self._drawing(replica):
                self._parts[replica.rank].compute(scale, handed, spans)
            if self._on_cuda:
                arriving = self._arriving[replica.rank]
                arriving.copy_(replica.parameters.reduced, non_blocking=True)
        self._reduce()
        self._shared.unpack()
        self.optimizer.step()
        self._publish()

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        """Set parameters and buffers."""
        self.parameters.load_state_dict(state)
        for replica in self.replicas:
            replica.parameters.load_state_dict(state)

    def seed(self, seed: int) -> None:
        """Seed the replicas' generators; replica 0 continues the generator of the weights."""
        for replica in self.replicas:
            with self._drawing(replica):
                replica.seed(seed)

    def random_states(self) -> list[dict[str, torch.Tensor]]:
        """Return the state of each replica's generators, by device type."""
        states = []
        for replica in self.replicas:
            with self._drawing(replica):
                states.append(replica.random_state())
        return states

    def set_random_states(self, states: Sequence[Mapping[str, torch.Tensor]]) -> None:
        """Restore the states that `random_states` returned."""
        for replica, state in zip(self.replicas, states, strict=True):
            with self._drawing(replica):
                replica.set_random_state(state)

    def _reduce(self) -> None:
        """Add up all replicas' gradients in the parameters that the optimizer updates."""
        total = self.parameters.reduced
        if not self._on_cuda:
            for replica in self.replicas[1:]:
                total.add_(replica.parameters.reduced)
            return
        total.zero_()
        for replica, arriving in zip(self.replicas, self._arriving, strict=True):
            torch.cuda.current_stream(replica.device).synchronize()
            total.add_(arriving)

    def _publish(self) -> None:
        """Send parameters and buffers to all replicas.

        Nothing waits here, as `_reduce` waits for each device before the next update. A copy to a
        GPU from unpinned memory would wait.
        """
        self.parameters.publish()
        extra = self.parameters.extra
        if self._on_cuda:
            self._leaving.copy_(self.parameters.values)
            extra = self._leaving_extra.copy_(extra)
        for replica in self.replicas:
            own = replica.parameters
            if self._on_cuda:
                own.values.copy_(self._leaving, non_blocking=True)
                own.publish()
            if own is not self.parameters:
                own.extra.copy_(extra, non_blocking=True)
                replica.shared.unpack()

    def _publish_scale(self) -> None:
        """Send the loss scale to all GPUs, as an update or a restored state may have changed it.

        Nothing waits here, as in `_publish`.
        """
        if not self._on_cuda or self.parameters.loss_scale is None:
            return
        self._leaving_scale.copy_(self.parameters.loss_scale.value)
        for replica in self.replicas:
            scale = replica.parameters.loss_scale
            assert scale is not None, "the replicas compute in fp16 too"
            scale.value.copy_(self._leaving_scale, non_blocking=True)

    @contextlib.contextmanager
    def _drawing(self, replica: Replica) -> Iterator[None]:
        """Give a replica on the CPU its own generator state, as in a process of its own."""
        if replica.device.type == "cpu":
            torch.set_rng_state(self._draws[replica.rank])
        yield
        if replica.device.type == "cpu":
            self._draws[replica.rank] = torch.get_rng_state()


def _show_counts(model: nn.Module, *, of: nn.Module) -> None:
    """Make a model share another's buffers of integers, such as counts, as it never computes."""
    for shown, computed in zip(model.modules(), of.modules(), strict=True):
        for name, buffer in computed.named_buffers(recurse=False):
            if not buffer.is_floating_point():
                shown.register_buffer(
                    name, buffer, persistent=name not in computed._non_persistent_buffers_set
                )


def _pinned(like: torch.Tensor) -> torch.Tensor:
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

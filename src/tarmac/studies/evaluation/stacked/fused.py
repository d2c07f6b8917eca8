"""Compute a stack on a GPU with the fused kernels of `tarmac.kernels`, for any mixture."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from tarmac import kernels
from tarmac.kernels import FusedNetwork, FusedStack, UnfitNetworkError, rule_of
from tarmac.studies.evaluation.stacked.layout import decays
from tarmac.studies.evaluation.stacked.updates import rates_of
from tarmac.workloads import SGD

if TYPE_CHECKING:
    from tarmac.studies.evaluation.stacked.draws import EpochDraws
    from tarmac.studies.evaluation.stacked.network import Network
    from tarmac.studies.evaluation.stacked.samples import Samples

_SGD = SGD(learning_rate=1.0, momentum=0.0, nesterov=False)


@functools.cache
def why_unusable(device: torch.device) -> str | None:
    """Train a tiny network with the kernels and return why that fails, or None.

    Only a trial shows whether Triton can compile for a GPU, and whether the result can be launched.
    Without it, the kernels of real networks would fail in the middle of their training.
    """
    missing = kernels.why_not()
    if missing is not None:
        return missing
    network = FusedNetwork(
        sizes=(16, 16, 16), activations=("relu",), dropouts=(0.0,), optimizer=_SGD, seed=0
    )
    inputs = torch.zeros(1, 16, dtype=torch.uint8, device=device)
    targets = torch.zeros(1, dtype=torch.int64, device=device)
    try:
        stack = FusedStack([network], inputs, targets, batch_size=1)
        stack.begin(torch.zeros(1, dtype=torch.int32), np.ones(1), first_step=0)
        stack.run(1)
        stack.totals().tolist()
    except Exception as error:
        # Triton's compiler, its linker and its driver raise exceptions of any type.
        return f"{type(error).__name__}: {str(error).strip().rpartition(chr(10))[2]}"
    return None


def can_fuse(network: Network) -> bool:
    """Return whether the kernels can train a network."""
    try:
        rule_of(_fused(network).optimizer)
    except UnfitNetworkError:
        return False
    return True


class FusedKernels:
    """A `Computation` with a handful of kernel launches per step.

    The kernels draw dropout from each network's seed and the step alone.

    Args:
        networks: Networks of the stack, in the order of `arranged`.
        samples: Training and validation samples, on the GPU.
        dtype: Type of the matrix products: ``torch.float32`` or ``torch.bfloat16``.

    Raises:
        UnfitNetworkError: There is no kernel for such networks.
    """

    masks = None

    def __init__(self, networks: Sequence[Network], samples: Samples, dtype: torch.dtype) -> None:
        shape = networks[0].shape
        scale = shape.preprocess
        self._networks = [*networks]
        self._samples = samples
        self._stack = FusedStack(
            [_fused(network) for network in networks],
            samples.inputs,
            samples.targets,
            batch_size=shape.batch_size,
            dtype=dtype,
            factor=scale.factor / scale.std,
            shift=-scale.mean / scale.std,
            label_smoothing=shape.label_smoothing,
        )

    def start(self) -> None:
        """See `Computation`."""
        for index, network in enumerate(self._networks):
            parameters = network.build().parameters
            for own, (weight, bias) in zip(self._stack.parameters(index), parameters, strict=True):
                own.weight.copy_(weight)
                own.bias.copy_(bias)
        self._stack.publish()

    def train_epoch(self, epoch: int, draws: EpochDraws) -> torch.Tensor:
        """See `Computation`."""
        batch_size = self._networks[0].shape.batch_size
        num_steps = -(-draws.orders.shape[1] // batch_size)
        rates = rates_of(
            [network.rule for network in self._networks],
            [epoch + step / num_steps for step in range(num_steps)],
        )
        orders = draws.orders[0] if len(draws.orders) == 1 else draws.orders
        self._stack.begin(orders, rates.T.numpy(), first_step=epoch * num_steps)
        self._stack.clear_totals()
        self._stack.run(num_steps)
        return self._stack.totals().T

    def validate(self) -> torch.Tensor:
        """See `Computation`."""
        inputs, targets = self._samples.validation
        return self._stack.evaluate(inputs, targets).T / len(targets)

    def keep(self, kept: Sequence[int]) -> None:
        """See `Computation`."""
        self._networks = [self._networks[index] for index in kept]
        self._stack.keep(kept)


def _fused(network: Network) -> FusedNetwork:
    shape = network.shape
    num_layers = len(shape.sizes) - 1
    flat = decays(shape.names, dict(shape.weight_decay), 2 * num_layers)
    return FusedNetwork(
        sizes=shape.sizes,
        activations=network.activations,
        dropouts=network.dropouts,
        optimizer=network.rule.optimizer,
        seed=network.candidate.seed,
        weight_decay=tuple(zip(flat[::2], flat[1::2], strict=True)) if any(flat) else None,
    )

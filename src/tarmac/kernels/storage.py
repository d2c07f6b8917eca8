"""The tensors of a fused stack on its device: parameters of the layers, and batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from tarmac.kernels.network import FusedNetwork
from tarmac.kernels.rules import rule_of

# Rows of weights begin at multiples of this many elements, so that loads are aligned.
_ALIGNMENT = 16


@dataclasses.dataclass(frozen=True)
class Linear:
    """The values of one layer of one network, shaped as in `torch.nn.Linear`.

    Attributes:
        weight: Weight matrix, fp32 ``[out, in]``.
        bias: Bias vector, fp32 ``[out]``.
    """

    weight: torch.Tensor
    bias: torch.Tensor


@dataclasses.dataclass
class _Values:
    """A value for each weight and bias of networks: ``[count, out, in]``, ``[count, out]``.

    Features are padded with zeros to multiples of 16.
    """

    weights: torch.Tensor
    biases: torch.Tensor

    @classmethod
    def full(
        cls, stored: tuple[int, int], starts: Sequence[float], device: torch.device
    ) -> _Values:
        weights = torch.zeros(len(starts), *stored, device=device)
        biases = torch.zeros(len(starts), stored[0], device=device)
        for index, start in enumerate(starts):
            if start:
                weights[index], biases[index] = start, start
        return cls(weights, biases)

    def of(self, index: int, true: tuple[int, int]) -> Linear:
        outputs, inputs = true
        return Linear(self.weights[index, :outputs, :inputs], self.biases[index, :outputs])

    def keep(self, kept: torch.Tensor) -> None:
        self.weights, self.biases = self.weights[kept], self.biases[kept]


class Layer:
    """A layer of all networks: its parameters and their optimizer state.

    Args:
        networks: Networks of the stack, in order.
        inputs: Number of input features of the layer.
        outputs: Number of output features of the layer.
        dtype: Data type of the weights that products read.
        device: Device that holds the tensors.

    Attributes:
        true: Numbers of output and input features, without padding.
        stored: The same two numbers, rounded up to multiples of 16.
        values: Weights and biases of all networks, in fp32.
        averages: Averages of gradients, only for networks whose optimizer keeps them.
        moments: Second moments, only for networks whose optimizer keeps them.
        copy: Weights in ``dtype``, which products read. With fp32, the weights themselves.
    """

    def __init__(
        self,
        networks: Sequence[FusedNetwork],
        inputs: int,
        outputs: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.true = (outputs, inputs)
        self.stored = (rounded_up(outputs, _ALIGNMENT), rounded_up(inputs, _ALIGNMENT))
        rules = [rule_of(network.optimizer) for network in networks]
        averages = [rule.start for rule in rules if rule.average_name is not None]
        moments = [rule.start for rule in rules if rule.moment_name is not None]
        self.values = _Values.full(self.stored, [0.0] * len(networks), device)
        self.averages = _Values.full(self.stored, averages, device)
        self.moments = _Values.full(self.stored, moments, device)
        self._dtype = dtype
        self.copy = self.values.weights.to(dtype)

    @property
    def has_copy(self) -> bool:
        """Whether products read a copy of the weights in another data type."""
        return self._dtype != torch.float32

    def publish(self) -> None:
        """Copy the current weights to the data type that products read."""
        if self.has_copy:
            self.copy.copy_(self.values.weights)

    def keep(self, kept: torch.Tensor, averages: torch.Tensor, moments: torch.Tensor) -> None:
        """Keep only some of the networks."""
        self.values.keep(kept)
        self.averages.keep(averages)
        self.moments.keep(moments)
        self.copy = self.copy[kept] if self.has_copy else self.values.weights


class Batches:
    """Samples on the device, and the order in which steps read them.

    Args:
        inputs: Samples on the device, uint8 ``[samples, ...]``.
        targets: Classes of the samples, int64 ``[samples]``.
        batch_size: Number of samples in a step.
        num_networks: Number of networks in the stack.
        num_programs: Number of kernel programs that add to a network's totals.

    Attributes:
        inputs: Samples, uint8 ``[samples, features]``, padded to a multiple of 16 features.
        targets: Classes of the samples, int64 ``[samples]``.
        batch_size: Number of samples in a step.
        order: Indexes of samples, int32 ``[1 or networks, capacity]``.
        cursor: Position in the order, int32 ``[3]``; see `mlp`.
        totals: Losses and correct predictions, fp64 ``[networks, programs, 2]``.
    """

    def __init__(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        batch_size: int,
        num_networks: int,
        num_programs: int,
    ) -> None:
        self._given = (inputs, targets)
        self.inputs = _aligned(inputs.flatten(1))
        self.targets = targets
        self.batch_size = batch_size
        device = inputs.device
        self.order = torch.zeros(0, 0, dtype=torch.int32, device=device)
        self.cursor = torch.zeros(3, dtype=torch.int32, device=device)
        shape = (num_networks, num_programs, 2)
        self.totals = torch.zeros(shape, dtype=torch.float64, device=device)

    @property
    def order_stride(self) -> int:
        """Elements between the orders of two networks; 0 where all networks share one order."""
        return self.order.shape[1] if self.order.shape[0] > 1 else 0

    def is_of(self, inputs: torch.Tensor, targets: torch.Tensor) -> bool:
        """Return whether the batches were made from exactly these tensors."""
        return self._given[0] is inputs and self._given[1] is targets

    def fill(self, order: torch.Tensor, first_step: int) -> bool:
        """Set the samples of the coming steps; see `FusedStack.begin`.

        Returns:
            Whether the order moved to new memory.
        """
        rows = order.to(torch.int32)
        rows = rows[None] if rows.dim() == 1 else rows
        num_samples = rows.shape[1]
        is_new = self.order.shape[0] != rows.shape[0] or self.order.shape[1] < num_samples
        if is_new:
            self.order = torch.zeros(rows.shape, dtype=torch.int32, device=self.order.device)
        # Without pinned memory, the source has been read when the call returns.
        self.order[:, :num_samples].copy_(rows, non_blocking=True)
        cursor = torch.tensor([0, num_samples, first_step], dtype=torch.int32)
        self.cursor.copy_(cursor, non_blocking=True)
        return is_new

    def keep(self, kept: torch.Tensor) -> None:
        """Keep only some of the networks."""
        self.totals = self.totals[kept]
        if self.order.shape[0] > 1:
            self.order = self.order[kept]


def slots_of(networks: Sequence[FusedNetwork]) -> list[tuple[int, int]]:
    """Return each network's index among all averages and second moments, or -1 for none."""
    indices, num_averages, num_moments = [], 0, 0
    for network in networks:
        rule = rule_of(network.optimizer)
        has_average, has_moment = rule.average_name is not None, rule.moment_name is not None
        indices.append((num_averages if has_average else -1, num_moments if has_moment else -1))
        num_averages, num_moments = num_averages + has_average, num_moments + has_moment
    return indices


def rounded_up(value: int, unit: int) -> int:
    """Return the smallest multiple of ``unit`` that is at least ``value``."""
    return -(-value // unit) * unit


def _aligned(inputs: torch.Tensor) -> torch.Tensor:
    """Return ``[samples, features]``, padded with zeros to a multiple of 16 features."""
    missing = -inputs.shape[1] % _ALIGNMENT
    return torch.nn.functional.pad(inputs, (0, missing)) if missing else inputs.contiguous()

"""The tensors of a fused stack on its device: parameters of the layers, and batches."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import torch

from tarmac.kernels.network import FusedNetwork
from tarmac.kernels.rules import Rule, rule_of

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


class _Values:
    """A value for each weight and bias of a layer, the networks one after another.

    Features are padded with zeros to multiples of 16.

    Args:
        stored: Output and input features of each network, padded.
        initial: Initial value, by network.
        device: Device that holds the values.

    Attributes:
        weights: Weights ``[out, in]`` of all networks, fp32 and flat.
        biases: Biases ``[out]`` of all networks, fp32 and flat.
    """

    def __init__(
        self, stored: Sequence[tuple[int, int]], initial: Sequence[float], device: torch.device
    ) -> None:
        self._stored = [*stored]
        self._find_starts()
        self.weights = torch.zeros(self._weight_starts[-1], device=device)
        self.biases = torch.zeros(self._bias_starts[-1], device=device)
        for index, value in enumerate(initial):
            if value:
                weights, biases = self._parts(index)
                weights.fill_(value)
                biases.fill_(value)

    def starts(self, index: int) -> tuple[int, int]:
        """Return where a network's weights and biases begin, in elements."""
        return self._weight_starts[index], self._bias_starts[index]

    def of(self, index: int, true: tuple[int, int]) -> Linear:
        """Return views of a network's weights and biases, without padding."""
        weights, biases = self._parts(index)
        outputs, inputs = true
        return Linear(weights.view(self._stored[index])[:outputs, :inputs], biases[:outputs])

    def keep(self, kept: Sequence[int]) -> None:
        """Keep only some of the networks."""
        parts = [self._parts(index) for index in kept]
        # Without networks, an empty part of the same type and device.
        self.weights = torch.cat([weights for weights, _ in parts] or [self.weights[:0]])
        self.biases = torch.cat([biases for _, biases in parts] or [self.biases[:0]])
        self._stored = [self._stored[index] for index in kept]
        self._find_starts()

    def _parts(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        w, b = self._weight_starts, self._bias_starts
        return self.weights[w[index] : w[index + 1]], self.biases[b[index] : b[index + 1]]

    def _find_starts(self) -> None:
        sizes = [outputs * inputs for outputs, inputs in self._stored]
        self._weight_starts = [*itertools.accumulate(sizes, initial=0)]
        widths = [outputs for outputs, _ in self._stored]
        self._bias_starts = [*itertools.accumulate(widths, initial=0)]


class Layer:
    """A layer of all networks: its parameters and their optimizer state.

    Args:
        networks: Networks of the stack, in order.
        shapes: Output and input features of each network; ``(0, 0)`` where it lacks the layer.
        dtype: Data type of the weights that products read.
        device: Device that holds the tensors.

    Attributes:
        true: Numbers of output and input features of each network, without padding.
        stored: The same numbers, rounded up to multiples of 16.
        values: Weights and biases of all networks, in fp32.
        averages: Averages of gradients, only for networks whose optimizer keeps them.
        moments: Second moments, only for networks whose optimizer keeps them.
        copy: Weights in ``dtype``, which products read. With fp32, the weights themselves.
    """

    def __init__(
        self,
        networks: Sequence[FusedNetwork],
        shapes: Sequence[tuple[int, int]],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.true = [*shapes]
        self._round_up()
        pairs = [
            (rule_of(network.optimizer), stored)
            for network, stored in zip(networks, self.stored, strict=True)
        ]
        with_average = [(rule, stored) for rule, stored in pairs if rule.average_name is not None]
        with_moment = [(rule, stored) for rule, stored in pairs if rule.moment_name is not None]

        def state(pairs: Sequence[tuple[Rule, tuple[int, int]]]) -> _Values:
            return _Values([stored for _, stored in pairs], [r.start for r, _ in pairs], device)

        self.values = _Values(self.stored, [0.0] * len(networks), device)
        self.averages = state(with_average)
        self.moments = state(with_moment)
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

    def keep(self, kept: Sequence[int], averages: Sequence[int], moments: Sequence[int]) -> None:
        """Keep only some of the networks."""
        self.values.keep(kept)
        self.averages.keep(averages)
        self.moments.keep(moments)
        self.true = [self.true[index] for index in kept]
        self._round_up()
        # The copy has the values' rounding, so it is the same as before.
        self.copy = self.values.weights.to(self._dtype)

    def _round_up(self) -> None:
        self.stored = [
            (rounded_up(outputs, _ALIGNMENT), rounded_up(inputs, _ALIGNMENT))
            for outputs, inputs in self.true
        ]


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

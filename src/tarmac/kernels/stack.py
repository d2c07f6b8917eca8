"""A stack of multilayer perceptrons that trains with the kernels of `mlp`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from tarmac.kernels.launches import Launches, Products
from tarmac.kernels.network import FusedNetwork
from tarmac.kernels.places import layer_shapes
from tarmac.kernels.rules import rule_of, step_factors
from tarmac.kernels.storage import Batches, Layer, Linear, rounded_up, slots_of
from tarmac.kernels.tiles import HEAD_ROWS
from tarmac.workloads import Optimizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Steps in each CUDA graph. More would save little: the host submits a graph in some 10 us.
_RECORDED_STEPS = (16, 1)


class FusedStack:
    """Networks that train together, each with its own widths, weights and optimizer.

    Networks of equal widths share their launches' constants. Those of other widths or depths read
    theirs from a table, so that no shape needs kernels of its own.

    Samples stay on the device, as bytes. `begin` sets the samples and learning rates of the coming
    steps. `run` then runs some of these steps without the host, and `totals` returns their summed
    losses. Every step is bitwise the same, whatever other networks are in the stack.

    The whole state of a training is its weights, its optimizers' state and its number of steps. A
    stack that gets them through `parameters`, `slots` and `begin` resumes exactly.

    Args:
        networks: Settings of each network, in order. All have the same number of input features and
            of classes, and all or none have hidden layers.
        inputs: Samples on the device, uint8 ``[samples, ...]``, with the networks' input features.
        targets: Classes of the samples, int64 ``[samples]``.
        batch_size: Number of samples in a step. The last step of a `begin` may have fewer.
        dtype: Data type of the products: float32 or bfloat16. float16 has no loss scaling and is
            only for proofs. Weights, optimizers and sums are always float32.
        factor: Factor of the input bytes: inputs are ``byte * factor + shift``. Default 1/255.
        shift: Value added to inputs after scaling by ``factor``. Default 0.
        label_smoothing: Share of the target spread over all classes. Default 0.
        tf32: Whether float32 products may be computed in TF32.

    Attributes:
        networks: Networks in the stack, in order; `keep` drops some.

    Raises:
        UnfitNetworkError: The kernels do not support such networks.

    Example:
        One epoch of a 784-512-512-10 network::

            stack = FusedStack([network], images, labels, batch_size=128)
            for mine, (weight, bias) in zip(stack.parameters(0), initial, strict=True):
                mine.weight.copy_(weight)
                mine.bias.copy_(bias)
            stack.begin(order, rates, first_step=0)
            stack.run(469)
            losses, right = stack.totals()[0].tolist()
    """

    def __init__(
        self,
        networks: Sequence[FusedNetwork],
        inputs: torch.Tensor,
        targets: torch.Tensor,
        *,
        batch_size: int,
        dtype: torch.dtype = torch.float32,
        factor: float = 1 / 255,
        shift: float = 0.0,
        label_smoothing: float = 0.0,
        tf32: bool = False,
    ) -> None:
        _check(networks, inputs)
        self.networks = tuple(networks)
        # As networks leave, kernels that are compiled serve on, also where one shape is left.
        self._is_ragged = len({network.sizes for network in networks}) > 1
        self._device = inputs.device
        self._products = Products(batch_size, dtype, factor, shift, label_smoothing, tf32)
        self._layers = [
            Layer(self.networks, shapes, dtype, self._device)
            for shapes in layer_shapes(self.networks)
        ]
        self._batches = self._batches_of(inputs, targets, batch_size)
        self._scored: Batches | None = None
        self._recordings: dict[int, torch.cuda.CUDAGraph] = {}
        self._evaluation: torch.cuda.CUDAGraph | None = None
        self._is_warm = False
        self._factors = torch.zeros(len(networks), 0, 3, device=self._device)
        self._set_up()

    def parameters(self, network: int) -> list[Linear]:
        """Return writable views of a network's weights and biases, by layer.

        Call `publish` after writing to them.
        """
        layers = self._layers_of(network)
        return [layer.values.of(network, layer.true[network]) for layer in layers]

    def publish(self) -> None:
        """Copy the parameters, as written, to the data type that products read."""
        for layer in self._layers:
            layer.publish()

    def slots(self, network: int) -> dict[str, list[Linear]]:
        """Return writable views of a network's optimizer state, by name and layer."""
        rule, (average, moment) = rule_of(self.networks[network].optimizer), self._slots[network]
        slots: dict[str, list[Linear]] = {}
        layers = self._layers_of(network)
        if rule.average_name is not None:
            slots[rule.average_name] = [x.averages.of(average, x.true[network]) for x in layers]
        if rule.moment_name is not None:
            slots[rule.moment_name] = [x.moments.of(moment, x.true[network]) for x in layers]
        return slots

    def begin(self, order: torch.Tensor, rates: NDArray[np.float64], first_step: int) -> None:
        """Set the samples and learning rates of the coming steps.

        Args:
            order: Indexes of samples, ``[samples]`` or, with an order for each network,
                ``[networks, samples]``, on any device. Each step takes ``batch_size`` of them.
            rates: Learning rates, ``[steps]`` or ``[networks, steps]``, for all steps that `run`
                will do.
            first_step: Number of training steps done before; dropout and bias corrections depend on
                it.
        """
        num_steps = np.shape(rates)[-1]
        if self._batches.fill(order, first_step):
            self._recordings.clear()
        if self._factors.shape[1] < num_steps:
            self._factors = torch.zeros(len(self.networks), num_steps, 3, device=self._device)
            self._recordings.clear()
        factors = _factors(self.networks, rates, first_step)
        # Without pinned memory, the source has been read when the call returns.
        self._factors[:, :num_steps].copy_(torch.from_numpy(factors), non_blocking=True)

    def run(self, num_steps: int) -> None:
        """Run the next ``num_steps`` steps set by `begin`, without waiting for the device."""
        if self._device.type != "cuda":
            for _ in range(num_steps):
                self._steps(1)
            return
        left = num_steps
        with torch.cuda.device(self._device):
            if left and not self._is_warm:
                # The first launches compile and load kernels, which a graph cannot record.
                with self._launches.compiling():
                    self._steps(1)
                self._steps(1)
                self._is_warm = True
                left -= 1
            for length in _RECORDED_STEPS:
                while left >= length:
                    self._recording(length).replay()
                    left -= length

    def warm_up(self) -> None:
        """Run one step set by `begin`, and record the graphs that `run` will launch.

        The step changes parameters and optimizer state.
        """
        self.run(1)
        if self._device.type == "cuda":
            for length in _RECORDED_STEPS:
                self._recording(length)

    def totals(self) -> torch.Tensor:
        """Return losses and correct predictions since `clear_totals`, fp64 ``[networks, 2]``."""
        return self._batches.totals.sum(1)

    def clear_totals(self) -> None:
        """Reset the totals to 0."""
        self._batches.totals.zero_()

    def evaluate(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return summed plain cross-entropies and correct predictions, fp64 ``[networks, 2]``.

        Args:
            inputs: Samples to score, uint8 ``[samples, ...]``, on the device of the training
                samples.
            targets: Classes of these samples, int64 ``[samples]``.
        """
        scored = self._scored
        if scored is None or not scored.is_of(inputs, targets):
            scored = self._batches_of(inputs, targets, self._products.rows)
            scored.fill(torch.arange(len(targets), device=self._device), 0)
            self._scored, self._evaluation = scored, None
        if self._device.type == "cuda":
            with torch.cuda.device(self._device):
                if self._evaluation is None:
                    self._score(scored)
                    self._evaluation = self._recorded(functools.partial(self._score, scored))
                scored.totals.zero_()
                self._evaluation.replay()
        else:
            scored.totals.zero_()
            self._score(scored)
        return scored.totals.sum(1)

    def keep(self, kept: Sequence[int]) -> None:
        """Keep only the networks at these indexes, in this order; free the memory of the others."""
        slots = [self._slots[index] for index in kept]
        averages = [average for average, _ in slots if average >= 0]
        moments = [moment for _, moment in slots if moment >= 0]
        self.networks = tuple(self.networks[index] for index in kept)
        for layer in self._layers:
            layer.keep(kept, averages, moments)
        there = torch.tensor(kept, dtype=torch.int64, device=self._device)
        self._batches.keep(there)
        self._scored = None
        self._factors = self._factors[there]
        self._set_up()

    def _layers_of(self, network: int) -> list[Layer]:
        """Return the layers that a network has; the deepest networks have all."""
        return [layer for layer in self._layers if layer.true[network] != (0, 0)]

    def _set_up(self) -> None:
        """Create the launches for the current networks, and drop all recorded graphs."""
        self._slots = slots_of(self.networks)
        self._launches = Launches(
            self.networks, self._layers, self._products, self._device, is_ragged=self._is_ragged
        )
        self._recordings.clear()
        self._evaluation, self._is_warm = None, False

    def _recording(self, num_steps: int) -> torch.cuda.CUDAGraph:
        if num_steps not in self._recordings:
            steps = functools.partial(self._steps, num_steps)
            self._recordings[num_steps] = self._recorded(steps)
        return self._recordings[num_steps]

    def _recorded(self, launches: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]  # PyTorch has no type
        # thread_local, because other threads may copy to the device meanwhile.
        recording = torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local")
        with torch.cuda.device(self._device), recording:
            launches()
        return graph

    def _batches_of(self, inputs: torch.Tensor, targets: torch.Tensor, size: int) -> Batches:
        num_programs = self._products.rows // HEAD_ROWS
        return Batches(inputs, targets, size, len(self.networks), num_programs)

    def _steps(self, num_steps: int) -> None:
        for offset in range(num_steps):
            self._launches.step(self._batches, self._factors, offset)
        self._launches.advance(self._batches, num_steps)

    def _score(self, batches: Batches) -> None:
        rows = self._products.rows
        for offset in range(rounded_up(len(batches.targets), rows) // rows):
            self._launches.score(batches, offset)


def _check(networks: Sequence[FusedNetwork], inputs: torch.Tensor) -> None:
    if not networks:
        raise ValueError("a stack has no networks")
    ends = {(network.sizes[0], network.sizes[-1]) for network in networks}
    if len(ends) > 1:
        raise ValueError(f"networks of a stack differ in their inputs and classes: {sorted(ends)}")
    if len({not network.activations for network in networks}) > 1:
        raise ValueError("some networks of a stack have hidden layers, others have none")
    width = networks[0].sizes[0]
    if inputs.dtype != torch.uint8 or inputs[0].numel() != width:
        raise ValueError(
            f"inputs are {inputs.dtype} {list(inputs.shape)}, expected uint8 [samples, {width}]"
        )


def _factors(
    networks: Sequence[FusedNetwork], rates: NDArray[np.float64], first_step: int
) -> NDArray[np.float32]:
    """Return the FACTORS of `mlp.update`, ``[networks, steps, 3]``."""
    num_steps = rates.shape[-1]
    every_rate = np.broadcast_to(rates, (len(networks), num_steps))
    factors = np.empty((len(networks), num_steps, 3), dtype=np.float32)
    groups: dict[Optimizer, list[int]] = {}
    for index, network in enumerate(networks):
        groups.setdefault(network.optimizer, []).append(index)
    for optimizer, members in groups.items():
        of_rate, root = step_factors(optimizer, first_step, num_steps)
        factors[members, :, :2] = of_rate * every_rate[members, :, None]
        factors[members, :, 2] = root
    return factors

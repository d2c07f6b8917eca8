"""A stack of multilayer perceptrons that trains by the kernels of `mlp`."""

from __future__ import annotations

import functools
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tarmac.kernels.network import ACTIVATIONS, MAX_CLASSES, FusedNetwork, UnfitNetworkError
from tarmac.kernels.rules import rule_of, step_factors
from tarmac.kernels.storage import Batches, Layer, Linear, rounded_up, slots_of
from tarmac.kernels.tiles import (
    HEAD_ROWS,
    head_columns,
    head_depth,
    load_depth,
    product_tile,
    row_block,
    update_tile,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from tarmac.workloads import Optimizer

__all__ = ["FusedStack"]

# Steps of each recording. More would save little: the host submits a launch of these in some 10 us.
_RECORDED_STEPS = (16, 1)
# Threads that compile, which wait for programs most of the time; a step has up to nine kernels.
_NUM_COMPILERS = 9
# What dropout's draws are cut to.
_LEVELS = 1 << 16
# Multiprocessors, where there is no GPU to ask: of an H100.
_NUM_PROCESSORS = 132


class FusedStack:
    """Networks of equal widths that train at once, each with weights and an optimizer of its own.

    Samples stay on the device, as bytes. A call of `begin` hands over what the coming steps need,
    their samples and rates; `run` then does some of them without the host, and `totals` are what
    they added up. Every step is the same, to the bit, whatever else is in the stack.

    Weights, what optimizers remember, and the number of steps done are all that a training is: a
    stack that is given them with `parameters`, `slots` and `begin` goes on exactly.

    Args:
        networks: What may differ between them.
        sizes: Features of the input, of each hidden layer, and of the logits.
        inputs: uint8 ``[samples, ...]``, of ``sizes[0]`` features each, on the device.
        targets: int64 ``[samples]``, classes.
        batch_size: Samples of a step; the last of those that `begin` hands over may have fewer.
        dtype: What the products are computed in: float32 or bfloat16; float16 has no loss scaling
            and is for proofs. Weights and optimizers are float32 always, sums too.
        factor: Inputs are ``byte * factor + shift``.
        shift: As above.
        label_smoothing: Share of the target spread over all classes.
        tf32: Whether float32 products may be computed in TF32.

    Attributes:
        networks: In their order.
        sizes: As given.

    Raises:
        UnfitNetworkError: There is no kernel for such networks.

    Example:
        One network of 784-512-512-10, an epoch of it::

            stack = FusedStack([network], (784, 512, 512, 10), images, labels, batch_size=128)
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
        sizes: Sequence[int],
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
        # Triton is imported with it, which only those need who make a stack.
        from tarmac.kernels import mlp  # noqa: PLC0415

        _check(networks, sizes, inputs)
        self.networks = tuple(networks)
        self.sizes = tuple(sizes)
        self._kernels: ModuleType = mlp
        self._device = inputs.device
        self._dtype = dtype
        self._precision = "tf32" if tf32 else "ieee"
        self._scale = (factor, shift)
        self._smoothing = label_smoothing
        self._num_processors = _num_processors(self._device)
        self._block = row_block(batch_size, dtype.itemsize)
        self._rows = rounded_up(batch_size, self._block)
        self._layers = [
            Layer(self.networks, *pair, dtype, self._device)
            for pair in itertools.pairwise(self.sizes)
        ]
        self._batches = self._batches_of(inputs, targets, batch_size)
        self._scored: Batches | None = None
        self._recordings: dict[int, torch.cuda.CUDAGraph] = {}
        self._evaluation: torch.cuda.CUDAGraph | None = None
        self._is_warm = False
        self._only_compiles = False
        self._factors = torch.zeros(len(networks), 0, 3, device=self._device)
        self._set_up()

    def parameters(self, network: int) -> list[Linear]:
        """Return a network's weights and biases by layer, views to read and to write.

        What is written counts from the next call of `publish` on.
        """
        return [layer.values.of(network, layer.true) for layer in self._layers]

    def publish(self) -> None:
        """Let the products read the parameters as they were written."""
        for layer in self._layers:
            layer.publish()

    def slots(self, network: int) -> dict[str, list[Linear]]:
        """Return what a network's optimizer remembers, by name and layer, views likewise."""
        rule, (average, moment) = rule_of(self.networks[network].optimizer), self._slots[network]
        found: dict[str, list[Linear]] = {}
        if rule.average_name is not None:
            found[rule.average_name] = [x.averages.of(average, x.true) for x in self._layers]
        if rule.moment_name is not None:
            found[rule.moment_name] = [x.moments.of(moment, x.true) for x in self._layers]
        return found

    def begin(self, order: torch.Tensor, rates: NDArray[np.float64], first_step: int) -> None:
        """Hand over the samples and rates of the coming steps.

        Args:
            order: Indexes ``[samples]`` or, for each network its own, ``[networks, samples]``, on
                any device. Each ``batch_size`` of them are a step.
            rates: Learning rates, ``[steps]`` or ``[networks, steps]``, of as many steps as `run`
                will do.
            first_step: How many steps of the training were done before: what dropout and bias
                corrections go by.
        """
        num_steps = np.shape(rates)[-1]
        if self._batches.fill(order, first_step):
            self._recordings.clear()
        if self._factors.shape[1] < num_steps:
            self._factors = torch.zeros(len(self.networks), num_steps, 3, device=self._device)
            self._recordings.clear()
        factors = _factors(self.networks, rates, first_step)
        # From memory that is not pinned, a copy has been taken when the call returns.
        self._factors[:, :num_steps].copy_(torch.from_numpy(factors), non_blocking=True)

    def run(self, num_steps: int) -> None:
        """Do the next steps of those that `begin` handed over, without waiting for the device."""
        left = num_steps
        if self._device.type == "cuda" and not self._is_warm:
            self._compile()
        # The first launch loads a kernel, which cannot be recorded.
        while left and not (self._is_warm and self._device.type == "cuda"):
            self._steps(1)
            self._is_warm = True
            left -= 1
        for length in _RECORDED_STEPS:
            while left >= length:
                self._recording(length).replay()
                left -= length

    def warm_up(self) -> None:
        """Do a step of those that `begin` handed over, and record what `run` will launch.

        Parameters and what is remembered are changed by it.
        """
        self.run(1)
        if self._device.type == "cuda":
            for length in _RECORDED_STEPS:
                self._recording(length)

    def totals(self) -> torch.Tensor:
        """Return losses and right answers since `clear_totals`, fp64 ``[networks, 2]``."""
        return self._batches.totals.sum(1)

    def clear_totals(self) -> None:
        """Begin the totals anew."""
        self._batches.totals.zero_()

    def evaluate(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return plain cross-entropies, added up, and right answers, fp64 ``[networks, 2]``.

        Args:
            inputs: As the training's, on the same device.
            targets: As the training's.
        """
        scored = self._scored
        if scored is None or not scored.is_of(inputs, targets):
            scored = self._batches_of(inputs, targets, self._rows)
            scored.fill(torch.arange(len(targets), device=self._device), 0)
            self._scored, self._evaluation = scored, None
            if self._device.type == "cuda":
                self._score(scored)
                self._evaluation = _recorded(lambda: self._score(scored))
        scored.totals.zero_()
        if self._evaluation is None:
            self._score(scored)
        else:
            self._evaluation.replay()
        return scored.totals.sum(1)

    def keep(self, kept: Sequence[int]) -> None:
        """Go on with some of the networks, in this order; the others' memory is given back."""
        slots = [self._slots[index] for index in kept]

        def on_device(indexes: Sequence[int]) -> torch.Tensor:
            return torch.tensor(indexes, dtype=torch.int64, device=self._device)

        there = on_device(kept)
        averages = on_device([average for average, _ in slots if average >= 0])
        moments = on_device([moment for _, moment in slots if moment >= 0])
        self.networks = tuple(self.networks[index] for index in kept)
        for layer in self._layers:
            layer.keep(there, averages, moments)
        self._batches.keep(there)
        self._scored = None
        self._factors = self._factors[there]
        self._set_up()

    def _set_up(self) -> None:
        """Make all that follows from which networks there are."""
        networks, device = self.networks, self._device
        rules = [rule_of(network.optimizer) for network in networks]
        self._slots = slots_of(networks)

        def on_device(values: object, dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype, device=device)

        codes = [[ACTIVATIONS.index(name) for name in n.activations] for n in networks]
        thresholds = [[round(p * _LEVELS) for p in n.dropouts] for n in networks]
        scales = [[_LEVELS / (_LEVELS - t) if t < _LEVELS else 0.0 for t in r] for r in thresholds]
        self._per_layer = (
            on_device(codes, torch.int32),
            on_device(thresholds, torch.int32),
            on_device(scales, torch.float32),
            on_device([network.seed % 2**63 for network in networks], torch.int64),
        )
        self._rules = (
            on_device([rule.form for rule in rules], torch.int32),
            on_device(self._slots, torch.int32),
            on_device([[*rule.average, *rule.moment, rule.eps] for rule in rules], torch.float32),
        )
        none = ((0.0, 0.0),) * len(self._layers)
        self._decays = on_device([n.weight_decay or none for n in networks], torch.float32)

        def values(width: int) -> torch.Tensor:
            return torch.zeros(len(networks), self._rows, width, dtype=self._dtype, device=device)

        self._hidden = [values(layer.stored[0]) for layer in self._layers[:-1]]
        self._errors = [values(layer.stored[0]) for layer in self._layers]
        self._forget()

    def _forget(self) -> None:
        """Drop what was recorded, with what it holds on to."""
        self._recordings.clear()
        self._evaluation, self._is_warm = None, False

    def _recording(self, num_steps: int) -> torch.cuda.CUDAGraph:
        if num_steps not in self._recordings:
            steps = functools.partial(self._steps, num_steps)
            self._recordings[num_steps] = _recorded(steps)
        return self._recordings[num_steps]

    def _batches_of(self, inputs: torch.Tensor, targets: torch.Tensor, size: int) -> Batches:
        return Batches(inputs, targets, size, len(self.networks), self._rows // HEAD_ROWS)

    def _steps(self, num_steps: int) -> None:
        for offset in range(num_steps):
            self._forward(self._batches, offset, smoothing=self._smoothing, training=True)
            for index in range(len(self._layers) - 1, -1, -1):
                if index:
                    self._backward(index, offset)
                self._update(index, offset)
        self._launch(self._kernels.advance, (1,), self._batches.cursor, num_steps, num_warps=1)

    def _score(self, batches: Batches) -> None:
        for offset in range(rounded_up(len(batches.targets), self._rows) // self._rows):
            self._forward(batches, offset, smoothing=0.0, training=False)

    def _launch(
        self, kernel: Any, grid: tuple[int, ...], *arguments: object, **constants: object
    ) -> None:
        if self._only_compiles:
            kernel.warmup(*arguments, grid=grid, **constants)
        else:
            kernel[grid](*arguments, **constants)

    def _compile(self) -> None:
        """Compile what a step launches, all at once: one after another they take seconds."""
        import triton  # noqa: PLC0415 - as in the constructor

        self._only_compiles = True
        try:
            with (
                ThreadPoolExecutor(_NUM_COMPILERS) as executor,
                triton.AsyncCompileMode(executor),
            ):
                self._steps(1)
        finally:
            self._only_compiles = False

    def _forward(self, batches: Batches, offset: int, *, smoothing: float, training: bool) -> None:
        count = len(self.networks)
        factor, shift = self._scale
        for index, layer in enumerate(self._layers[:-1]):
            width, depth = layer.stored
            tile = product_tile(count, self._rows, width, self._num_processors)
            grid = (_ceil(self._rows, tile.rows) * _ceil(width, tile.columns), count)
            self._launch(
                self._kernels.forward,
                grid,
                batches.inputs if index == 0 else self._hidden[index - 1],
                *(
                    batches.order,
                    batches.cursor,
                    layer.copy,
                    layer.values.biases,
                    self._hidden[index],
                ),
                *self._per_layer,
                *(factor, shift, width, depth, layer.true[0], self._rows),
                *(batches.batch_size, batches.order_stride, index, len(self._hidden)),
                *(offset, int(training)),
                FIRST=index == 0,
                ROWS=tile.rows,
                COLUMNS=tile.columns,
                DEPTH=load_depth(depth),
                PRECISION=self._precision,
                num_warps=tile.warps,
                num_stages=tile.stages,
            )
        last = self._layers[-1]
        width, depth = last.stored
        columns = head_columns(width)
        self._launch(
            self._kernels.head,
            (_ceil(self._rows, HEAD_ROWS), count),
            self._hidden[-1] if self._hidden else batches.inputs,
            *(batches.order, batches.cursor, batches.targets, last.copy, last.values.biases),
            *(self._errors[-1], batches.totals, factor, shift, smoothing),
            *(width, depth, last.true[0], self._rows),
            *(batches.batch_size, batches.order_stride, offset),
            FIRST=not self._hidden,
            ROWS=HEAD_ROWS,
            COLUMNS=columns,
            DEPTH=head_depth(depth, columns),
            PRECISION=self._precision,
            num_warps=4,
            num_stages=2,
        )

    def _backward(self, index: int, offset: int) -> None:
        layer, count = self._layers[index], len(self.networks)
        width, below = layer.stored
        tile = product_tile(count, self._rows, below, self._num_processors)
        grid = (_ceil(self._rows, tile.rows) * _ceil(below, tile.columns), count)
        self._launch(
            self._kernels.backward,
            grid,
            *(self._errors[index], self._batches.cursor, layer.copy),
            *(self._hidden[index - 1], self._errors[index - 1]),
            *self._per_layer,
            *(width, below, self._rows, index - 1, len(self._hidden), offset),
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            DEPTH=load_depth(width),
            PRECISION=self._precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )

    def _update(self, index: int, offset: int) -> None:
        batches, layer, count = self._batches, self._layers[index], len(self.networks)
        width, depth = layer.stored
        tile = update_tile(count, width, depth, self._num_processors)
        grid = (_ceil(width, tile.outputs) * _ceil(depth, tile.inputs), count)
        self._launch(
            self._kernels.update,
            grid,
            self._errors[index],
            self._hidden[index - 1] if index else batches.inputs,
            *(batches.order, batches.cursor, layer.values.weights, layer.copy),
            *(layer.averages.weights, layer.moments.weights),
            *(layer.values.biases, layer.averages.biases, layer.moments.biases),
            *self._rules,
            *(self._factors, self._decays, *self._scale),
            *(width, depth, *layer.true, self._rows, batches.batch_size, batches.order_stride),
            *(index, len(self._layers), self._factors.shape[1], offset),
            FIRST=index == 0,
            COPY=layer.has_copy,
            OUTPUTS=tile.outputs,
            INPUTS=tile.inputs,
            ROWS=self._block,
            PRECISION=self._precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )


def _check(networks: Sequence[FusedNetwork], sizes: Sequence[int], inputs: torch.Tensor) -> None:
    if not networks:
        raise ValueError("a stack has no networks")
    if inputs.dtype != torch.uint8 or inputs[0].numel() != sizes[0]:
        raise ValueError(
            f"inputs are {inputs.dtype} {list(inputs.shape)}, expected uint8 [samples, {sizes[0]}]"
        )
    if sizes[-1] > MAX_CLASSES:
        raise UnfitNetworkError(f"{sizes[-1]} classes, expected at most {MAX_CLASSES}")
    for network in networks:
        if len(network.activations) != len(sizes) - 2:
            raise ValueError(
                f"a network of {len(network.activations)} hidden layers, but the widths are {sizes}"
            )


def _factors(
    networks: Sequence[FusedNetwork], rates: NDArray[np.float64], first_step: int
) -> NDArray[np.float32]:
    """Return FACTORS of `mlp.update`, ``[networks, steps, 3]``."""
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


def _recorded(launches: Callable[[], None]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    # Of this thread alone: others may copy to the device meanwhile.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        launches()
    return graph


def _num_processors(device: torch.device) -> int:
    if device.type != "cuda":
        return _NUM_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)

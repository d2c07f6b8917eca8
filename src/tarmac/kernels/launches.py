"""Launches of the `mlp` kernels for the layers of a stack, with a tile for each launch."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import torch

from tarmac.kernels.network import ACTIVATIONS, FusedNetwork
from tarmac.kernels.parsing import parsing_in_threads
from tarmac.kernels.rules import rule_of
from tarmac.kernels.storage import Batches, Layer, rounded_up, slots_of
from tarmac.kernels.tiles import (
    HEAD_ROWS,
    head_columns,
    head_depth,
    load_depth,
    product_tile,
    row_block,
    update_tile,
)

# Dropout compares 16 bits of a random number with a threshold.
_LEVELS = 1 << 16
# Multiprocessors of an H100, assumed where there is no GPU.
_NUM_PROCESSORS = 132
# Compiler threads wait for subprocesses most of the time; a step has some nine kernels.
_NUM_COMPILERS = 9


@dataclasses.dataclass(frozen=True)
class Products:
    """Settings for reading samples and for matrix products.

    Attributes:
        batch_size: Number of samples in a step.
        dtype: Data type of the operands of products.
        factor: Factor of the input bytes: inputs are ``byte * factor + shift``.
        shift: Value added to inputs after scaling by ``factor``.
        smoothing: Share of the target spread over all classes.
        tf32: Whether fp32 products run in TF32.
    """

    batch_size: int
    dtype: torch.dtype
    factor: float
    shift: float
    smoothing: float
    tf32: bool

    @property
    def block(self) -> int:
        """The number of samples that a weight's gradient sums at a time."""
        return row_block(self.batch_size, self.dtype.itemsize)

    @property
    def rows(self) -> int:
        """The number of rows between layers: the batch size rounded up to whole blocks."""
        return rounded_up(self.batch_size, self.block)


class Launches:
    """The kernel launches of a stack's steps, with the values and errors between layers.

    Args:
        networks: Networks of the stack, in order.
        layers: Layers of all networks, from the input to the logits.
        products: How samples are read and multiplied.
        device: Device that holds the tensors and runs the kernels.
    """

    def __init__(
        self,
        networks: Sequence[FusedNetwork],
        layers: Sequence[Layer],
        products: Products,
        device: torch.device,
    ) -> None:
        # This imports Triton, which only stacks need.
        from tarmac.kernels import mlp  # noqa: PLC0415

        self._kernels: ModuleType = mlp
        self._layers = layers
        self._count = len(networks)
        self._products = products
        self._rows = products.rows
        self._item_bytes = products.dtype.itemsize
        self._precision = "tf32" if products.tf32 else "ieee"
        self._scale = (products.factor, products.shift)
        self._num_processors = _num_processors(device)
        self._only_compiles = False

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
        rules = [rule_of(network.optimizer) for network in networks]
        self._rules = (
            on_device([rule.form for rule in rules], torch.int32),
            on_device(slots_of(networks), torch.int32),
            on_device([[*rule.average, *rule.moment, rule.eps] for rule in rules], torch.float32),
        )
        none = ((0.0, 0.0),) * len(layers)
        self._decays = on_device([n.weight_decay or none for n in networks], torch.float32)

        def values(width: int) -> torch.Tensor:
            return torch.zeros(self._count, self._rows, width, dtype=products.dtype, device=device)

        self._hidden = [values(layer.stored[0]) for layer in layers[:-1]]
        self._errors = [values(layer.stored[0]) for layer in layers]

    def step(self, batches: Batches, factors: torch.Tensor, offset: int) -> None:
        """Run the step that is ``offset`` steps after the cursor.

        Args:
            batches: Training samples and their order.
            factors: Update factors, fp32 ``[networks, steps, 3]``; see `step_factors`.
            offset: Number of steps after the cursor, from 0.
        """
        self._forward(batches, offset, smoothing=self._products.smoothing, training=True)
        for index in range(len(self._layers) - 1, -1, -1):
            if index:
                self._backward(batches.cursor, index, offset)
            self._update(batches, factors, index, offset)

    def score(self, batches: Batches, offset: int) -> None:
        """Add the losses and correct predictions of a batch to the totals."""
        self._forward(batches, offset, smoothing=0.0, training=False)

    def advance(self, batches: Batches, num_steps: int) -> None:
        """Move the cursor forward by ``num_steps``."""
        self._launch(self._kernels.advance, (1,), batches.cursor, num_steps, num_warps=1)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Compile all kernels launched within the context in parallel, and launch none.

        One after another, they take seconds to compile.
        """
        import triton  # noqa: PLC0415 - as in the constructor

        self._only_compiles = True
        try:
            with (
                parsing_in_threads(),
                ThreadPoolExecutor(_NUM_COMPILERS) as executor,
                # A kernel that fails to compile raises its error again at its launch.
                triton.AsyncCompileMode(executor, ignore_errors=True),
            ):
                yield
        finally:
            self._only_compiles = False

    def _launch(
        self, kernel: Any, grid: tuple[int, ...], *arguments: object, **constants: object
    ) -> None:
        if self._only_compiles:
            kernel.warmup(*arguments, grid=grid, **constants)
        else:
            kernel[grid](*arguments, **constants)

    def _forward(self, batches: Batches, offset: int, *, smoothing: float, training: bool) -> None:
        count = self._count
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
                DEPTH=load_depth(depth, self._item_bytes),
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
            DEPTH=head_depth(depth, columns, self._item_bytes),
            PRECISION=self._precision,
            num_warps=4,
            num_stages=2,
        )

    def _backward(self, cursor: torch.Tensor, index: int, offset: int) -> None:
        layer, count = self._layers[index], self._count
        width, below = layer.stored
        tile = product_tile(count, self._rows, below, self._num_processors)
        grid = (_ceil(self._rows, tile.rows) * _ceil(below, tile.columns), count)
        self._launch(
            self._kernels.backward,
            grid,
            *(self._errors[index], cursor, layer.copy),
            *(self._hidden[index - 1], self._errors[index - 1]),
            *self._per_layer,
            *(width, below, self._rows, index - 1, len(self._hidden), offset),
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            DEPTH=load_depth(width, self._item_bytes),
            PRECISION=self._precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )

    def _update(self, batches: Batches, factors: torch.Tensor, index: int, offset: int) -> None:
        layer, count = self._layers[index], self._count
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
            *(factors, self._decays, *self._scale),
            *(width, depth, *layer.true, self._rows, batches.batch_size, batches.order_stride),
            *(index, len(self._layers), factors.shape[1], offset),
            FIRST=index == 0,
            COPY=layer.has_copy,
            OUTPUTS=tile.outputs,
            INPUTS=tile.inputs,
            ROWS=self._products.block,
            PRECISION=self._precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )


def _num_processors(device: torch.device) -> int:
    if device.type != "cuda":
        return _NUM_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)

"""Launches of the `mlp` kernels for the layers of a stack, with a tile for each launch."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import torch

from tarmac.kernels.network import ACTIVATIONS, FusedNetwork
from tarmac.kernels.parsing import parsing_in_threads
from tarmac.kernels.places import Places
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
        is_ragged: Whether the kernels read each network's widths from a table.
    """

    def __init__(
        self,
        networks: Sequence[FusedNetwork],
        layers: Sequence[Layer],
        products: Products,
        device: torch.device,
        *,
        is_ragged: bool,
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

        num_hidden = len(layers) - 1
        # Nothing reads the entries of layers that a network lacks.
        padding = [(0,) * (num_hidden - len(network.activations)) for network in networks]
        codes = [
            [*map(ACTIVATIONS.index, network.activations), *rest]
            for network, rest in zip(networks, padding, strict=True)
        ]
        thresholds = [
            [*(round(p * _LEVELS) for p in network.dropouts), *rest]
            for network, rest in zip(networks, padding, strict=True)
        ]
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
        decays = [_padded(network, num_hidden) for network in networks]
        self._decays = on_device(decays, torch.float32)
        self._is_ragged = is_ragged
        places = Places(networks, layers, self._rows)

        def values(size: int, starts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
            flat = torch.zeros(size, dtype=products.dtype, device=device)
            # The table of a ragged stack has the starts of the layers, too.
            return [flat if is_ragged else flat[start[0] :] for start in starts]

        self._hidden = values(places.num_hidden_elements, places.outputs[:-1])
        self._errors = values(places.num_elements, places.outputs)
        table = places.table() if is_ragged else torch.zeros(1, dtype=torch.int64)
        self._places = table.to(device)

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
        if 0 in grid:
            # The networks that had this layer have left.
            return
        if self._only_compiles:
            kernel.warmup(*arguments, grid=grid, **constants)
        else:
            kernel[grid](*arguments, **constants)

    def _forward(self, batches: Batches, offset: int, *, smoothing: float, training: bool) -> None:
        factor, shift = self._scale
        for index, layer in enumerate(self._layers[:-1]):
            widths = [width for width, _ in layer.stored]
            depth = max(depth for _, depth in layer.stored)
            tile = product_tile(self._rows, widths, self._num_processors)
            self._launch(
                self._kernels.forward,
                self._grid(_ceil(self._rows, tile.rows) * _ceil(w, tile.columns) for w in widths),
                batches.inputs if index == 0 else self._hidden[index - 1],
                *(batches.order, batches.cursor, layer.copy, layer.values.biases),
                *(self._hidden[index], self._places, *self._per_layer),
                *(factor, shift, *layer.stored[0], layer.true[0][0], self._rows),
                *(batches.batch_size, batches.order_stride, index, len(self._hidden)),
                *(offset, int(training)),
                FIRST=index == 0,
                RAGGED=self._is_ragged,
                ROWS=tile.rows,
                COLUMNS=tile.columns,
                DEPTH=load_depth(depth, self._item_bytes),
                PRECISION=self._precision,
                num_warps=tile.warps,
                num_stages=tile.stages,
            )
        last = self._layers[-1]
        columns = head_columns(last.stored[0][0])
        depth = max(depth for _, depth in last.stored)
        self._launch(
            self._kernels.head,
            (_ceil(self._rows, HEAD_ROWS), self._count),
            self._hidden[-1] if self._hidden else batches.inputs,
            *(batches.order, batches.cursor, batches.targets, last.copy, last.values.biases),
            *(self._errors[-1], self._places, batches.totals, factor, shift, smoothing),
            *(*last.stored[0], last.true[0][0], self._rows),
            *(batches.batch_size, batches.order_stride, len(self._hidden), offset),
            FIRST=not self._hidden,
            RAGGED=self._is_ragged,
            ROWS=HEAD_ROWS,
            COLUMNS=columns,
            DEPTH=head_depth(depth, columns, self._item_bytes),
            PRECISION=self._precision,
            num_warps=4,
            num_stages=2,
        )

    def _backward(self, cursor: torch.Tensor, index: int, offset: int) -> None:
        layer = self._layers[index]
        below = [depth for _, depth in layer.stored]
        tile = product_tile(self._rows, below, self._num_processors)
        self._launch(
            self._kernels.backward,
            self._grid(_ceil(self._rows, tile.rows) * _ceil(w, tile.columns) for w in below),
            *(self._errors[index], cursor, layer.copy),
            *(self._hidden[index - 1], self._errors[index - 1], self._places),
            *self._per_layer,
            *(*layer.stored[0], self._rows, index, len(self._hidden), offset),
            RAGGED=self._is_ragged,
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            DEPTH=load_depth(max(width for width, _ in layer.stored), self._item_bytes),
            PRECISION=self._precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )

    def _update(self, batches: Batches, factors: torch.Tensor, index: int, offset: int) -> None:
        layer = self._layers[index]
        tile = update_tile(layer.stored, self._num_processors)
        self._launch(
            self._kernels.update,
            self._grid(_ceil(n, tile.outputs) * _ceil(k, tile.inputs) for n, k in layer.stored),
            self._errors[index],
            self._hidden[index - 1] if index else batches.inputs,
            *(batches.order, batches.cursor, layer.values.weights, layer.copy),
            *(layer.averages.weights, layer.moments.weights),
            *(layer.values.biases, layer.averages.biases, layer.moments.biases),
            *(self._places, *self._rules),
            *(factors, self._decays, *self._scale),
            *(*layer.stored[0], *layer.true[0], self._rows),
            *(batches.batch_size, batches.order_stride),
            *(index, len(self._layers), factors.shape[1], offset),
            FIRST=index == 0,
            COPY=layer.has_copy,
            RAGGED=self._is_ragged,
            OUTPUTS=tile.outputs,
            INPUTS=tile.inputs,
            ROWS=self._products.block,
            PRECISION=self._precision,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )

    def _grid(self, tiles: Iterable[int]) -> tuple[int, int]:
        """Return the grid for the network with the most tiles; programs of others end at once."""
        return max(tiles), self._count


def _padded(network: FusedNetwork, num_hidden: int) -> list[tuple[float, float]]:
    """Return a network's weight decay by layer, as `layer_shapes` numbers them."""
    own = network.weight_decay or ((0.0, 0.0),) * (len(network.activations) + 1)
    return [*own[:-1], *[(0.0, 0.0)] * (num_hidden + 1 - len(own)), own[-1]]


def _num_processors(device: torch.device) -> int:
    if device.type != "cuda":
        return _NUM_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)

"""The choice of the kernels' tiles by the amount of work, without timing.

A GPU is busy when it has more programs than multiprocessors, and larger tiles read less. So the
functions choose the largest tile that still gives every multiprocessor two programs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

# Samples per program of the last layer; the program holds all their logits.
HEAD_ROWS = 16

_PROGRAMS_EACH = 2
_BLOCK_BYTES = 128
_DEPTHS = (16, 32, 64)


@dataclasses.dataclass(frozen=True)
class ProductTile:
    """The tile of a product over samples, with the warps and stages of a program."""

    rows: int
    columns: int
    warps: int
    stages: int


@dataclasses.dataclass(frozen=True)
class UpdateTile:
    """The tile of a weight update, with the warps and stages of a program."""

    outputs: int
    inputs: int
    warps: int
    stages: int


# Ordered from the largest to the smallest tile.
PRODUCT_TILES = (
    ProductTile(rows=64, columns=64, warps=4, stages=3),
    ProductTile(rows=16, columns=32, warps=4, stages=4),
)
UPDATE_TILES = (
    UpdateTile(outputs=64, inputs=64, warps=8, stages=3),
    UpdateTile(outputs=32, inputs=64, warps=8, stages=2),
    UpdateTile(outputs=16, inputs=64, warps=4, stages=3),
)


def row_block(batch_size: int, item_bytes: int) -> int:
    """Return the number of samples that a weight's gradient sums at a time.

    The number is a power of two, at least 16.

    Args:
        batch_size: Number of samples in a step.
        item_bytes: Size of an operand in bytes. Larger operands get smaller blocks, so that
            registers do not spill.
    """
    block = 16
    while block < min(batch_size, _BLOCK_BYTES // item_bytes):
        block *= 2
    return block


def load_depth(features: int, item_bytes: int) -> int:
    """Return the number of features that a product's program loads at a time.

    Args:
        features: Number of features that the product sums over.
        item_bytes: Size of an operand in bytes. Fewer of the larger operands are loaded at a time,
            so that registers do not spill.
    """
    most = _BLOCK_BYTES // item_bytes
    return min(next((depth for depth in _DEPTHS if features <= depth), most), most)


def head_depth(features: int, columns: int, item_bytes: int) -> int:
    """Return `load_depth` for the last layer, where many classes leave less shared memory."""
    return min(load_depth(features, item_bytes), 64 if columns <= 64 else 16)


def head_columns(num_classes: int) -> int:
    """Return the number of logits that a program holds of a sample: a power of two from 16."""
    return max(16, 1 << (num_classes - 1).bit_length())


def product_tile(rows: int, columns: Sequence[int], num_processors: int) -> ProductTile:
    """Choose the tile of each network's ``[rows, columns]`` outputs.

    Args:
        rows: Samples, a multiple of `row_block`.
        columns: Output features of each network.
        num_processors: Multiprocessors of the GPU.
    """
    for tile in PRODUCT_TILES:
        programs = _ceil(rows, tile.rows) * sum(_ceil(width, tile.columns) for width in columns)
        if tile.rows <= rows and programs >= _PROGRAMS_EACH * num_processors:
            return tile
    return PRODUCT_TILES[-1]


def update_tile(shapes: Sequence[tuple[int, int]], num_processors: int) -> UpdateTile:
    """Choose the tile of each network's ``[outputs, inputs]`` weights."""
    if max(outputs for outputs, _ in shapes) <= UPDATE_TILES[-1].outputs:
        return UPDATE_TILES[-1]
    for tile in UPDATE_TILES[:-1]:
        programs = sum(
            _ceil(outputs, tile.outputs) * _ceil(inputs, tile.inputs) for outputs, inputs in shapes
        )
        if programs >= _PROGRAMS_EACH * num_processors:
            return tile
    return UPDATE_TILES[-2]


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)

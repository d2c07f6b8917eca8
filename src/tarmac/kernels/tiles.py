"""Chooses the kernels' tiles by how much there is to do; nothing is timed for it.

A GPU is busy when it has more programs than multiprocessors, and larger tiles read less: so the
largest tile that still gives every multiprocessor two programs is taken.
"""

from __future__ import annotations

import dataclasses

# Samples of a program of the last layer, which holds all their logits.
HEAD_ROWS = 16

_PROGRAMS_EACH = 2
_BLOCK_BYTES = 128
_DEPTHS = (16, 32, 64)


@dataclasses.dataclass(frozen=True)
class ProductTile:
    """Of a product over samples: rows, columns, warps and stages of a program."""

    rows: int
    columns: int
    warps: int
    stages: int


@dataclasses.dataclass(frozen=True)
class UpdateTile:
    """Of a weight matrix that is updated: outputs, inputs, warps and stages of a program."""

    outputs: int
    inputs: int
    warps: int
    stages: int


# The largest first.
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
    """Return how many samples a weight's gradient adds up at a time: a power of two from 16.

    Args:
        batch_size: Samples of a step.
        item_bytes: Bytes of a value that products read. Larger values get smaller blocks, so that
            registers do not spill.
    """
    block = 16
    while block < min(batch_size, _BLOCK_BYTES // item_bytes):
        block *= 2
    return block


def load_depth(features: int, item_bytes: int) -> int:
    """Return how many features a product's program loads at a time.

    Args:
        features: Features that the product sums over.
        item_bytes: Bytes of a value that products read. Larger values are loaded fewer at a time,
            so that registers do not spill.
    """
    most = _BLOCK_BYTES // item_bytes
    return min(next((depth for depth in _DEPTHS if features <= depth), most), most)


def head_depth(features: int, columns: int, item_bytes: int) -> int:
    """Return the same for the last layer, where many classes leave less shared memory."""
    return min(load_depth(features, item_bytes), 64 if columns <= 64 else 16)


def head_columns(num_classes: int) -> int:
    """Return how many logits a program holds of a sample: a power of two."""
    return max(16, 1 << (num_classes - 1).bit_length())


def product_tile(num_networks: int, rows: int, columns: int, num_processors: int) -> ProductTile:
    """Choose the tile of ``[rows, columns]`` outputs of each network.

    Args:
        num_networks: Number of networks in the stack.
        rows: Samples, a multiple of `row_block`.
        columns: Output features of each network.
        num_processors: Multiprocessors of the GPU.
    """
    for tile in PRODUCT_TILES:
        programs = num_networks * _ceil(rows, tile.rows) * _ceil(columns, tile.columns)
        if tile.rows <= rows and programs >= _PROGRAMS_EACH * num_processors:
            return tile
    return PRODUCT_TILES[-1]


def update_tile(num_networks: int, outputs: int, inputs: int, num_processors: int) -> UpdateTile:
    """Choose the tile of ``[outputs, inputs]`` weights of each network."""
    if outputs <= UPDATE_TILES[-1].outputs:
        return UPDATE_TILES[-1]
    for tile in UPDATE_TILES[:-1]:
        programs = num_networks * _ceil(outputs, tile.outputs) * _ceil(inputs, tile.inputs)
        if programs >= _PROGRAMS_EACH * num_processors:
            return tile
    return UPDATE_TILES[-2]


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit)

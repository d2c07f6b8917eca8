"""Compiles the kernels for GPUs that need not be there, and says what they take."""

from __future__ import annotations

import dataclasses
import itertools
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tarmac.kernels.tiles import (
    HEAD_ROWS,
    PRODUCT_TILES,
    UPDATE_TILES,
    head_columns,
    head_depth,
    load_depth,
    row_block,
)

# What a multiprocessor lets a program have at least, among those that are compiled for: that of
# compute capability 8.6, 8.9 and 12.0 (CUDA programming guide, table of compute capabilities).
SHARED_BYTES = 99 * 1024

_POINTERS = {
    **dict.fromkeys(("ORDER", "CURSOR", "ACTIVATION", "THRESHOLD", "FORM", "SLOT"), "*i32"),
    **dict.fromkeys(("B", "SCALE", "W", "U", "V", "UB", "VB", "RULE", "FACTORS", "DECAY"), "*fp32"),
    **dict.fromkeys(("factor", "shift", "smoothing"), "fp32"),
    **dict.fromkeys(("SEED", "TARGETS", "PLACES"), "*i64"),
    "TOTALS": "*fp64",
}
_OF_PRODUCTS = ("X", "C", "H", "E", "G")
# Whole numbers that are always multiples of 16, as Triton sees at a launch.
_ALIGNED = ("N", "K", "rows_stored")
_ITEM_BYTES = {"*bf16": 2, "*fp32": 4}


@dataclasses.dataclass(frozen=True)
class Variant:
    """A kernel with its constants."""

    kernel: str
    constants: tuple[tuple[str, Any], ...]
    warps: int
    stages: int


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a compiled kernel takes: bytes of spilled registers, and of shared memory."""

    variant: Variant
    spilled: int
    shared: int


def variants(dtype: str, precision: str, *, ragged: bool = False) -> Iterator[Variant]:
    """Every variant that a launch of a stack of one shape may choose, or of a ragged one."""

    def variant(kernel: str, warps: int, stages: int, **constants: Any) -> Variant:
        values = {"PRECISION": precision, "RAGGED": ragged, **constants}
        return Variant(kernel, tuple(values.items()), warps, stages)

    item_bytes = _ITEM_BYTES[dtype]
    for tile in PRODUCT_TILES:
        size = {"ROWS": tile.rows, "COLUMNS": tile.columns}
        for first in (True, False):
            depth = load_depth(784, item_bytes)
            yield variant("forward", tile.warps, tile.stages, FIRST=first, DEPTH=depth, **size)
        for width in (16, 512):
            depth = load_depth(width, item_bytes)
            yield variant("backward", tile.warps, tile.stages, DEPTH=depth, **size)
    for first, classes in itertools.product((True, False), (10, 256)):
        columns = head_columns(classes)
        depth = head_depth(784, columns, item_bytes)
        size = {"ROWS": HEAD_ROWS, "COLUMNS": columns, "DEPTH": depth}
        yield variant("head", 4, 2, FIRST=first, **size)
    rows = row_block(1024, item_bytes)
    for tile, first in itertools.product(UPDATE_TILES, (True, False)):
        size = {"OUTPUTS": tile.outputs, "INPUTS": tile.inputs, "ROWS": rows}
        copy = dtype != "*fp32"
        yield variant("update", tile.warps, tile.stages, FIRST=first, COPY=copy, **size)


def compiled(variant: Variant, dtype: str, capability: int) -> Usage:
    """Compile a variant for a compute capability, such as 90."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from tarmac.kernels import mlp

    kernel = getattr(mlp, variant.kernel)
    names, constants = kernel.arg_names, dict(variant.constants)
    types = _POINTERS | dict.fromkeys(_OF_PRODUCTS, dtype)
    if constants.get("FIRST"):
        types["X"] = "*u8"
    signature = {n: "constexpr" if n in constants else types.get(n, "i32") for n in names}
    aligned = [i for i, n in enumerate(names) if signature[n][0] == "*" or n in _ALIGNED]
    source = ASTSource(
        kernel,
        signature,
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(index,): [["tt.divisibility", 16]] for index in aligned},
    )
    options = {"num_warps": variant.warps, "num_stages": variant.stages}
    binary = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return Usage(variant, _spilled(binary.asm["cubin"]), binary.metadata.shared)


def _spilled(cubin: bytes) -> int:
    """Bytes of a thread's stack: what does not fit its registers."""
    import triton

    program = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [program, "--dump-resource-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"STACK:(\d+)", said)
    assert found, said
    return max(map(int, found))

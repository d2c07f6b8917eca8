"""What GPUs can do at most, by their makers' datasheets, and what healthy ones reach of it.

The table is ``chips.toml`` beside this file.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

# What drivers of different ages and makers put before a chip's name.
_MAKERS = re.compile(r"^((NVIDIA|Tesla|GeForce|AMD|Instinct) )+")

# The part of its memory by which a card may show less than it has: ECC takes up to 6.25 % of GDDR
# (https://docs.nvidia.com/grid/latest/grid-vgpu-user-guide/, "ECC memory"), the driver some more. A
# stack of HBM is 12.5 % or more.
_MEMORY_TOLERANCE = 0.1


class Chip(BaseModel):
    """Nominal rates, dense, in TFLOP/s and GB/s; None is unsupported or unknown.

    Attributes:
        name: What we call it.
        names: What the driver calls it, without its maker.
        source: The maker's datasheet, or who quotes it.
        memory_gib: What the driver shows of its memory, at most.
        fp32: On the ordinary units.
        bf16: On the matrix units, with fp32 accumulation.
        fp16: On the matrix units, with fp32 accumulation, or the ordinary ones of older chips.
        fp8: On the matrix units, with fp32 accumulation.
        bandwidth: Nominal bandwidth of its memory, in GB/s.
        unverified: Fields above that were not compared with the maker's sheet.
        attainable: The share of `bf16` or `fp16` that a healthy one reaches in large products.
        attainable_source: URL of the measurement behind `attainable`.
        all_reduce_8: GB/s of the bus that 8 of them reach together.
        all_reduce_source: URL of the measurement behind `all_reduce_8`.
        multiprocessors: Multiprocessors of a whole chip, if its partitions have the same name.
        nvlink_board: Whether all its NVLinks are wired on the board, and none by a bridge.
        pcie_host: Whether PCIe joins it to its processor.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    names: tuple[str, ...]
    source: str
    memory_gib: float | None = None
    fp32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    bandwidth: float | None = None
    unverified: tuple[str, ...] = ()
    attainable: float | None = None
    attainable_source: str | None = None
    all_reduce_8: float | None = None
    all_reduce_source: str | None = None
    multiprocessors: int | None = None
    nvlink_board: bool = False
    pcie_host: bool = True

    def is_verified(self, field: str) -> bool:
        """Whether a figure is known, and was found again in the maker's sheet."""
        return getattr(self, field) is not None and field not in self.unverified

    def lacks_memory(self, num_bytes: int) -> bool:
        """Whether a card shows less memory than ECC and the driver explain."""
        return (
            self.memory_gib is not None
            and num_bytes < (1 - _MEMORY_TOLERANCE) * self.memory_gib * 2**30
        )


@functools.cache
def read_chips() -> tuple[Chip, ...]:
    """Return all chips that are known."""
    text = Path(__file__).with_name("chips.toml").read_text(encoding="utf-8")
    return tuple(Chip(name=name, **fields) for name, fields in tomllib.loads(text).items())


def find_chip(
    name: str | None, *, memory_bytes: int | None = None, multiprocessors: int | None = None
) -> Chip | None:
    """Return the chip that the driver's name stands for; None for one that is not listed.

    A part of a chip has a part of its rates, and a laptop's chip has others: neither is listed.

    Args:
        name: As the driver or a framework prints it.
        memory_bytes: Tells apart chips of one name; without it, such a name is of none.
        multiprocessors: Tells a whole chip from a partition of the same name.
    """
    if not name:
        return None
    bare = _MAKERS.sub("", name)
    chips = [chip for chip in read_chips() if bare in chip.names]
    if len(chips) > 1:
        off = {chip.name: _memory_off(chip, memory_bytes) for chip in chips}
        near = [chip for chip in chips if off[chip.name] <= _MEMORY_TOLERANCE]
        chips = sorted(near, key=lambda chip: off[chip.name])
    is_whole = bool(chips) and chips[0].multiprocessors in (None, multiprocessors)
    return chips[0] if is_whole else None


def _memory_off(chip: Chip, num_bytes: int | None) -> float:
    """Return by which part a memory's size differs from a chip's."""
    if num_bytes is None or chip.memory_gib is None:
        return math.inf
    return abs(num_bytes / (chip.memory_gib * 2**30) - 1)

"""The peak rates of GPUs by their makers' datasheets, and the share that healthy GPUs reach.

The table is ``chips.toml`` beside this file.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

# Prefixes that drivers of different ages and makers put before a chip's name.
_MAKERS = re.compile(r"^((NVIDIA|Tesla|GeForce|AMD|Instinct) )+")

# The share of its memory that a card may hide: ECC takes up to 6.25 % of GDDR
# (https://docs.nvidia.com/grid/latest/grid-vgpu-user-guide/, "ECC memory"), the driver some more. A
# stack of HBM is 12.5 % or more.
_MEMORY_TOLERANCE = 0.1


class Chip(BaseModel):
    """A chip's nominal rates, dense, in TFLOP/s and GB/s; None is unsupported or unknown.

    Attributes:
        name: Tarmac's name of the chip.
        names: Names that the driver prints, without the maker.
        source: URL of the maker's datasheet, or of a page that quotes it.
        memory_gib: Maximum memory in GiB that the driver shows.
        fp32: TFLOP/s of the ordinary units.
        bf16: TFLOP/s of the matrix units, with fp32 accumulation.
        fp16: TFLOP/s of the matrix units, with fp32 accumulation; of the ordinary units in older
            chips.
        fp8: TFLOP/s of the matrix units, with fp32 accumulation.
        bandwidth: Nominal bandwidth of its memory, in GB/s.
        unverified: Fields above that were not compared with the maker's sheet.
        attainable: Share of `bf16` or `fp16` that a healthy chip reaches in large products.
        attainable_source: URL of the measurement behind `attainable`.
        all_reduce_8: Bus bandwidth in GB/s of an all-reduce on 8 of them.
        all_reduce_source: URL of the measurement behind `all_reduce_8`.
        multiprocessors: Multiprocessors of a whole chip, if its partitions have the same name.
        nvlink_board: Whether all its NVLinks are wired on the board, and none by a bridge.
        pcie_host: Whether PCIe connects it to its processor.
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
        """Return whether a figure is known and confirmed by the maker's sheet."""
        return getattr(self, field) is not None and field not in self.unverified

    def lacks_memory(self, num_bytes: int) -> bool:
        """Return whether a card shows less memory than ECC and the driver explain."""
        return (
            self.memory_gib is not None
            and num_bytes < (1 - _MEMORY_TOLERANCE) * self.memory_gib * 2**30
        )


@functools.cache
def read_chips() -> tuple[Chip, ...]:
    """Return all known chips."""
    text = Path(__file__).with_name("chips.toml").read_text(encoding="utf-8")
    return tuple(Chip(name=name, **fields) for name, fields in tomllib.loads(text).items())


def find_chip(
    name: str | None, *, memory_bytes: int | None = None, multiprocessors: int | None = None
) -> Chip | None:
    """Return the chip of a driver's name; None if it is not listed.

    Partitions of a chip and chips of laptops have other rates, so they are not listed.

    Args:
        name: Name that the driver or a framework prints.
        memory_bytes: Memory of the card, for chips of the same name; without it, None is returned
            for such a name.
        multiprocessors: Number of multiprocessors, to exclude a partition of the same name.
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
    """Return the relative difference between a memory's size and a chip's."""
    if num_bytes is None or chip.memory_gib is None:
        return math.inf
    return abs(num_bytes / (chip.memory_gib * 2**30) - 1)

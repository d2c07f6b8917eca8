"""What a device reaches, of what its chip can at most and of what a healthy one reaches."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tarmac.machine import find_chip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.machine import Chip

# What matrix units are made for, and a healthy chip's share of is known for.
_KINDS = ("bf16", "fp16")


@dataclasses.dataclass(frozen=True)
class MatrixRate:
    """The rate of large products on the matrix units.

    Attributes:
        kind: The type that comes nearest to its nominal rate: a slow chip is slow in all.
        flops: Measured rate, in FLOP/s (not TFLOP/s).
        nominal: Nominal rate of the chip, in TFLOP/s; None where it is unknown.
        healthy: What a healthy one reaches, in TFLOP/s; None where that is not known, or rests on
            a figure that is not verified.
    """

    kind: str
    flops: float
    nominal: float | None = None
    healthy: float | None = None

    @property
    def share(self) -> float | None:
        """The part of its nominal rate."""
        return None if self.nominal is None else self.flops / self.nominal / 1e12

    @property
    def health(self) -> float | None:
        """The part of what a healthy one reaches."""
        return None if self.healthy is None else self.flops / self.healthy / 1e12


def chip_of(device: Mapping[str, Any]) -> Chip | None:
    """Return the chip that a device of a probe's result is; None for one that is not known."""
    return find_chip(
        device.get("chip"),
        memory_bytes=device.get("memory_bytes"),
        multiprocessors=device.get("multiprocessors"),
    )


def find_matrix_rate(device: Mapping[str, Any]) -> MatrixRate | None:
    """Return the matrix rate of a device of a probe's result; None where none was measured."""
    chip, measured = chip_of(device), device.get("flops") or {}
    rates = [_rate(chip, kind, measured[kind]) for kind in _KINDS if measured.get(kind)]
    return max(rates, key=lambda rate: (rate.share or 0.0, rate.flops), default=None)


def _rate(chip: Chip | None, kind: str, flops: float) -> MatrixRate:
    nominal: float | None = getattr(chip, kind, None)
    healthy = None
    if chip is not None and nominal is not None and chip.attainable is not None:
        healthy = chip.attainable * nominal if chip.is_verified(kind) else None
    return MatrixRate(kind, flops, nominal, healthy)

"""A device's measured rate, compared with its chip's nominal rate and with a healthy chip's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tarmac.machine import Chip, find_chip

# The types of the matrix units for which a healthy chip's share is known.
MATRIX_TYPES = ("bf16", "fp16")


@dataclasses.dataclass(frozen=True)
class MatrixRate:
    """The rate of large products on the matrix units.

    Attributes:
        kind: Type that comes nearest to its nominal rate, as a slow chip is slow in all types.
        flops: Measured rate, in FLOP/s (not TFLOP/s).
        nominal: Nominal rate of the chip, in TFLOP/s; None where it is unknown.
        healthy: Rate that a healthy chip reaches, in TFLOP/s; None where it is unknown or rests on
            an unverified figure.
    """

    kind: str
    flops: float
    nominal: float | None = None
    healthy: float | None = None

    @property
    def share(self) -> float | None:
        """The measured rate as a fraction of the nominal rate."""
        return None if self.nominal is None else self.flops / self.nominal / 1e12

    @property
    def health(self) -> float | None:
        """The measured rate as a fraction of a healthy chip's rate."""
        return None if self.healthy is None else self.flops / self.healthy / 1e12


def chip_of(device: Mapping[str, Any]) -> Chip | None:
    """Return the chip of a device in a probe's result; None where it is unknown."""
    return find_chip(
        device.get("chip"),
        memory_bytes=device.get("memory_bytes"),
        multiprocessors=device.get("multiprocessors"),
    )


def find_matrix_rate(device: Mapping[str, Any]) -> MatrixRate | None:
    """Return the matrix rate of a device in a probe's result; None where none was measured."""
    chip, measured = chip_of(device), device.get("flops") or {}
    rates = [_rate(chip, kind, measured[kind]) for kind in MATRIX_TYPES if measured.get(kind)]
    return max(rates, key=lambda rate: (rate.share or 0.0, rate.flops), default=None)


def _rate(chip: Chip | None, kind: str, flops: float) -> MatrixRate:
    nominal: float | None = getattr(chip, kind, None)
    healthy = None
    if chip is not None and nominal is not None and chip.attainable is not None:
        healthy = chip.attainable * nominal if chip.is_verified(kind) else None
    return MatrixRate(kind, flops, nominal, healthy)

"""Rules on rates: what a chip reaches of what it could."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.checks.rules.rule import measured_devices, place_of
from tarmac.machine import find_chip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.rule import Hits, Rule

# The shares of nominal rates under which we warn, and call it a failure. Healthy cards reach 0.7
# to 0.85 in large bf16 products and 0.9 in copies; shapes, clocks and cooling explain some of the
# rest.
_SLOW = 0.6

_VERY_SLOW = 0.3

# Bytes/s of pinned memory over PCIe 3.0 x8, the slowest link a card of today should have.
_SLOW_COPIES = 6e9


def _shares(evidence: Evidence) -> Iterator[tuple[str, float, str]]:
    """Yield where, which share of its nominal matrix rate a chip reaches, and that in words."""
    for probe, device in measured_devices(evidence):
        chip = find_chip(device.get("chip"))
        for kind in ("bf16", "fp16"):
            nominal = getattr(chip, kind) if chip else None
            rate = (device.get("flops") or {}).get(kind)
            if nominal and rate:
                words = f"{rate / 1e12:.0f} of {nominal:g} TFLOP/s in {kind}"
                yield place_of(probe, device), rate / nominal / 1e12, words


def _very_slow_compute(evidence: Evidence) -> Hits:
    for where, share, words in _shares(evidence):
        if share < _VERY_SLOW:
            yield where, words


def _slow_compute(evidence: Evidence) -> Hits:
    for where, share, words in _shares(evidence):
        if _VERY_SLOW <= share < _SLOW:
            yield where, words


def _slow_memory(evidence: Evidence) -> Hits:
    for probe, device in measured_devices(evidence):
        chip = find_chip(device.get("chip"))
        rate = (device.get("copies") or {}).get("memory")
        if chip and rate and rate < _SLOW * chip.bandwidth * 1e9:
            words = f"{rate / 1e9:.0f} of {chip.bandwidth:g} GB/s"
            yield place_of(probe, device), words


def _slow_copies(evidence: Evidence) -> Hits:
    for probe, device in measured_devices(evidence):
        copies = device.get("copies") or {}
        for direction in ("to_device", "from_device"):
            rate = copies.get(direction)
            if rate and rate < _SLOW_COPIES and copies.get("pinned", True):
                words = direction.replace("_", " the ")
                yield place_of(probe, device), f"{rate / 1e9:.1f} GB/s {words}"


RULES: Mapping[str, Rule] = {
    "very-slow-compute": _very_slow_compute,
    "slow-compute": _slow_compute,
    "slow-memory": _slow_memory,
    "slow-copies": _slow_copies,
}

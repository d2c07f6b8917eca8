"""Measured rates, as they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarmac.machine import find_chip

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tarmac.machine import Chip

__all__ = ["device_in_words"]


def device_in_words(device: Mapping[str, Any]) -> str:
    """Return a device of a probe's result with its rates, and their shares of the datasheet's.

    Args:
        device: An entry of the result's ``devices``.
    """
    rates = device.get("flops") or {}
    chip = find_chip(device.get("chip"))
    shown = [f"{kind} {_flops(rate)}{_share(chip, kind, rate)}" for kind, rate in rates.items()]
    if "bus_bytes_per_s" in device:
        shown.append(f"bus {device['bus_bytes_per_s'] / 1e9:.2g} GB/s")
    if "soak" in device:
        shown += _soaked(device["soak"])
    return f"{device['name']}: {', '.join(shown)}" if shown else str(device["name"])


def _soaked(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was compared, what differed, and how even the rounds were."""
    if "comparisons" not in state:
        return
    wrong = f"{state['num_mismatches']:,} wrong"
    yield f"{state['comparisons']:,} comparisons of {state['bytes'] / 2**30:,.1f} GiB, {wrong}"
    yield f"{state['memory_bytes'] / 2**30:.1f} GiB of memory under patterns"
    if state["fastest_s"] is not None:
        fastest, slowest = (1000 * state[key] for key in ("fastest_s", "slowest_s"))
        yield f"products of a round in {fastest:.3g} to {slowest:.3g} ms"


def _share(chip: Chip | None, kind: str, rate: float) -> str:
    nominal = getattr(chip, kind, None)
    return f" ({rate / nominal / 1e12:.0%} of its datasheet's)" if nominal else ""


def _flops(rate: float) -> str:
    return f"{rate / 1e12:.3g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GFLOP/s"

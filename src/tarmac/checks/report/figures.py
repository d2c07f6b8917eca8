"""Measured rates as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tarmac.checks.rates import chip_of, find_matrix_rate


def device_in_words(device: Mapping[str, Any]) -> str:
    """Return a device's name with its rates, each compared with its chip's nominal rate.

    Args:
        device: Entry of ``devices`` in a probe's result.
    """
    shown = [_rate(device, kind, rate) for kind, rate in (device.get("flops") or {}).items()]
    if "bus_bytes_per_s" in device:
        shown.append(f"bus {device['bus_bytes_per_s'] / 1e9:.3g} GB/s")
    if "soak" in device:
        shown += _soaked(device["soak"])
    return f"{device['name']}: {', '.join(shown)}" if shown else str(device["name"])


def _rate(device: Mapping[str, Any], kind: str, rate: float) -> str:
    nominal = getattr(chip_of(device), kind, None)
    if nominal is None:
        return f"{kind} {_flops(rate)}"
    matrix = find_matrix_rate(device)
    health = matrix.health if matrix is not None and matrix.kind == kind else None
    judged = "" if health is None else f" ({100 * health:.0f} % of what a healthy one reaches)"
    return f"{kind} {rate / 1e12:.3g} of {nominal:g} TFLOP/s{judged}"


def _soaked(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the compared amounts, the number of differences, and the times of the rounds."""
    if "comparisons" not in state:
        return
    wrong = f"{state['num_mismatches']:,} wrong"
    yield f"{state['comparisons']:,} comparisons of {state['bytes'] / 2**30:,.1f} GiB, {wrong}"
    yield f"{state['memory_bytes'] / 2**30:.1f} GiB of memory under patterns"
    if state["fastest_s"] is not None:
        fastest, slowest = (1000 * state[key] for key in ("fastest_s", "slowest_s"))
        yield f"products of a round in {fastest:.3g} to {slowest:.3g} ms"


def _flops(rate: float) -> str:
    return f"{rate / 1e12:.3g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GFLOP/s"

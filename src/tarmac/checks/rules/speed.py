"""Rules on rates: a chip's rate relative to a healthy chip's, and to its siblings'."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tarmac.checks.rates import MATRIX_TYPES, MatrixRate, chip_of, find_matrix_rate
from tarmac.checks.rules.rule import Hits, Rule, measured_devices, place_of
from tarmac.machine import find_chip

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence, Probe

# Fractions of a healthy chip's rate below which a chip gets a warning or a failure. Shapes, clocks
# and cooling explain smaller losses.
_SLOW = 0.75

_VERY_SLOW = 0.4

# Fraction of the nominal rate that any healthy chip reaches. A T4, which its power limit slows down
# most of all chips, reaches 0.35.
_FAR_BELOW = 0.2

# Fraction of another framework's rate on the same GPU below which a framework gets a note.
_SLOWER_FRAMEWORK = 0.75

# Fraction of the nominal bandwidth that copies within a healthy device reach: 0.7 on a T4 with ECC,
# 0.9 on an H200.
_SLOW_MEMORY = 0.6

# The spread of healthy siblings, from cooling and silicon, is somewhat above 5 %.
_SLOWER = 0.1

# Number of siblings from which on the odd one can be identified.
_FEW = 3


def _very_slow_compute(evidence: Evidence) -> Hits:
    for where, rate in _best_rates(evidence):
        if rate.health is not None and rate.health < _VERY_SLOW:
            yield where, _in_words(rate)


def _slow_compute(evidence: Evidence) -> Hits:
    for where, rate in _best_rates(evidence):
        if rate.health is not None and _VERY_SLOW <= rate.health < _SLOW:
            yield where, _in_words(rate)


def _below_datasheet(evidence: Evidence) -> Hits:
    for where, rate in _best_rates(evidence):
        if rate.health is None and rate.share is not None and rate.share < _FAR_BELOW:
            yield where, f"{rate.flops / 1e12:.3g} of {rate.nominal:g} TFLOP/s in {rate.kind}"


def _best_rates(evidence: Evidence) -> Iterator[tuple[str, MatrixRate]]:
    """Yield each device's best matrix rate: a card is as fast as its fastest framework shows."""
    for measured in _by_device(evidence):
        rates = [
            (place_of(probe, device), rate)
            for probe, device in measured
            if (rate := find_matrix_rate(device)) is not None
        ]
        if rates:
            yield max(rates, key=lambda placed: (placed[1].share or 0.0, placed[1].flops))


def _by_device(evidence: Evidence) -> Iterable[list[tuple[Probe, Mapping[str, Any]]]]:
    """Return what the probes measured, in a list for each device."""
    by_name: dict[str, list[tuple[Probe, Mapping[str, Any]]]] = {}
    for probe, device in measured_devices(evidence):
        by_name.setdefault(device["name"], []).append((probe, device))
    return by_name.values()


def _slower_framework(evidence: Evidence) -> Hits:
    for measured in _by_device(evidence):
        reached: dict[str, list[tuple[float, str, str]]] = {}
        for probe, device in measured:
            for unit, value in _comparable_rates(device).items():
                reached.setdefault(unit, []).append((value, probe.label, place_of(probe, device)))
        for unit, rates in reached.items():
            best, fastest, _ = max(rates)
            for value, _, where in rates:
                if value < _SLOWER_FRAMEWORK * best:
                    yield where, f"{value:.4g} {unit}, {fastest} reaches {best:.4g}"


def _comparable_rates(device: Mapping[str, Any]) -> dict[str, float]:
    """Return a GPU's rates by unit. In fp32 frameworks differ in whether they use TF32."""
    if device.get("kind") != "gpu":
        return {}
    flops, memory = device.get("flops") or {}, _memory_rate(device)
    rates = {f"TFLOP/s in {kind}": flops[kind] / 1e12 for kind in MATRIX_TYPES if flops.get(kind)}
    return rates | ({"GB/s of its memory": memory / 1e9} if memory else {})


def _in_words(rate: MatrixRate) -> str:
    reached = f"{rate.flops / 1e12:.3g} of {rate.nominal:g} TFLOP/s in {rate.kind}"
    return f"{reached}, {100 * (rate.health or 0.0):.0f} % of what a healthy one reaches"


def _slow_memory(evidence: Evidence) -> Hits:
    for measured in _by_device(evidence):
        probe, device = max(measured, key=lambda pair: _memory_rate(pair[1]))
        chip, rate = chip_of(device), _memory_rate(device)
        if chip is None or not rate or not chip.is_verified("bandwidth"):
            continue
        assert chip.bandwidth is not None
        if rate < _SLOW_MEMORY * chip.bandwidth * 1e9:
            yield place_of(probe, device), f"{rate / 1e9:.0f} of {chip.bandwidth:g} GB/s"


def _memory_rate(device: Mapping[str, Any]) -> float:
    """Return the rate of copies within a device, in bytes/s; 0 where none was measured."""
    return (device.get("copies") or {}).get("memory") or 0.0


def _memory_missing(evidence: Evidence) -> Hits:
    for gpu in evidence.inventory.gpus:
        if gpu.mig or not gpu.memory_bytes:
            continue
        chip = find_chip(gpu.name, memory_bytes=gpu.memory_bytes)
        if chip is not None and chip.lacks_memory(gpu.memory_bytes):
            yield gpu.label, f"{gpu.memory_bytes / 2**30:.0f} of {chip.memory_gib:g} GiB"


@dataclasses.dataclass(frozen=True)
class _Sibling:
    """A measured value of a device, and those of the other devices with the same chip.

    Attributes:
        others: Values of the other devices with this chip, by device name.
    """

    where: str
    value: float
    unit: str
    others: Mapping[str, float]

    @property
    def usual(self) -> float:
        return statistics.median(self.others.values())

    @property
    def is_slower(self) -> bool:
        return self.value < (1 - _SLOWER) * self.usual


def _slower_than_siblings(evidence: Evidence) -> Hits:
    for sibling in _siblings(evidence):
        if len(sibling.others) + 1 >= _FEW and sibling.is_slower:
            count = len(sibling.others)
            yield sibling.where, f"{_less(sibling)}, the median of its {count} siblings"


def _uneven_siblings(evidence: Evidence) -> Hits:
    for sibling in _siblings(evidence):
        if len(sibling.others) + 1 < _FEW and sibling.is_slower:
            (other,) = sibling.others
            yield sibling.where, f"{_less(sibling)} of {other}"


def _less(sibling: _Sibling) -> str:
    less = 100 * (1 - sibling.value / sibling.usual)
    return f"{sibling.value:.4g} {sibling.unit}, {less:.0f} % below {sibling.usual:.4g}"


def _siblings(evidence: Evidence) -> Iterator[_Sibling]:
    """Yield each value of each device that has siblings: other devices with the same chip.

    A device that is slow for its chip is left out, as it has its own finding.
    """
    for probe in evidence.probes:
        chips: dict[str, list[Mapping[str, Any]]] = {}
        for device in probe.result.get("devices", ()):
            if device.get("chip"):
                chips.setdefault(device["chip"], []).append(device)
        for devices in chips.values():
            yield from _among(probe, devices)


def _among(probe: Probe, devices: list[Mapping[str, Any]]) -> Iterator[_Sibling]:
    slow = [device["name"] for device in devices if _is_slow(device)]
    for unit, values in (_products(devices), _copies(devices)):
        for name, value in values.items():
            others = {other: v for other, v in values.items() if other != name}
            if others and name not in slow:
                yield _Sibling(f"{probe.label} on {name}", value, unit, others)


def _is_slow(device: Mapping[str, Any]) -> bool:
    rate = find_matrix_rate(device)
    return rate is not None and rate.health is not None and rate.health < _SLOW


def _products(devices: list[Mapping[str, Any]]) -> tuple[str, dict[str, float]]:
    """Return the rates in the first type that all devices have, in TFLOP/s."""
    for kind in ("bf16", "fp16", "fp32"):
        rates = {d["name"]: (d.get("flops") or {}).get(kind, 0.0) for d in devices}
        if all(rates.values()):
            return f"TFLOP/s in {kind}", {name: rate / 1e12 for name, rate in rates.items()}
    return "", {}


def _copies(devices: list[Mapping[str, Any]]) -> tuple[str, dict[str, float]]:
    """Return the rates of copies within each device, in GB/s."""
    rates = {d["name"]: _memory_rate(d) for d in devices}
    return "GB/s of its memory", {name: rate / 1e9 for name, rate in rates.items() if rate}


RULES: Mapping[str, Rule] = {
    "very-slow-compute": _very_slow_compute,
    "slow-compute": _slow_compute,
    "below-datasheet": _below_datasheet,
    "slow-memory": _slow_memory,
    "slower-framework": _slower_framework,
    "memory-missing": _memory_missing,
    "slower-than-siblings": _slower_than_siblings,
    "uneven-siblings": _uneven_siblings,
}

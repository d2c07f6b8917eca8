"""All rates that a check has measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.evidence import Probe

# The kinds of rates: matrix products by precision, and copies by path.
PRODUCTS = ("bf16", "fp16", "fp32")
COPIES = ("memory", "to_device", "from_device", "bus", "pair")


@dataclasses.dataclass(frozen=True)
class Rate:
    """A measured rate.

    Attributes:
        framework: Label of the probe that measured the rate, as in verdicts.
        device: Name of the device, such as ``cuda:0``; of a pair, ``cuda:0 to cuda:1``.
        kind: A name from `PRODUCTS` or `COPIES`. ``memory`` reads and writes a device's own memory,
            ``bus`` is an all-reduce's bus bandwidth, ``pair`` a copy from a GPU to another.
        per_second: FLOP or bytes per second.
    """

    framework: str
    device: str
    kind: str
    per_second: float

    @property
    def name(self) -> str:
        """The name of the rate, such as ``torch on cuda:0, bf16``."""
        return f"{self.framework} on {self.device}, {self.kind}"

    @property
    def unit(self) -> str:
        """The unit of `value`: ``TFLOP/s`` for products, else ``GB/s``."""
        return "TFLOP/s" if self.kind in PRODUCTS else "GB/s"

    @property
    def value(self) -> float:
        """The rate in its `unit`."""
        return self.per_second / (1e12 if self.kind in PRODUCTS else 1e9)


def rates_of(probes: Iterable[Probe]) -> tuple[Rate, ...]:
    """Return all rates in the order in which they were measured."""
    return tuple(_rates(probes))


def _rates(probes: Iterable[Probe]) -> Iterator[Rate]:
    for probe, device in ((p, d) for p in probes for d in p.result.get("devices", ())):
        name = str(device["name"])
        for kind, rate in (device.get("flops") or {}).items():
            yield Rate(probe.label, name, kind, rate)
        for kind, rate in (device.get("copies") or {}).items():
            if kind in COPIES:
                yield Rate(probe.label, name, kind, rate)
        if "bus_bytes_per_s" in device:
            yield Rate(probe.label, name, "bus", device["bus_bytes_per_s"])
        for pair in device.get("pairs") or ():
            between = f"cuda:{pair['from']} to cuda:{pair['to']}"
            yield Rate(probe.label, between, "pair", pair["bytes_per_s"])

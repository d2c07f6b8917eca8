"""PCIe links of cards, from the kernel's files: maximum rates, current rates, and paths."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

# GB/s of a lane, one way, by GT/s. The line code takes 2 of 10 bits, from 8 GT/s on 2 of 130; flits
# of 64 GT/s carry 236 of 256 bytes. Source: PCIE_SPEED2MBS_ENC in Linux's drivers/pci/pci.h, and
# https://pcisig.com/specifications/pcie-6.
_LANE = {
    2.5: 0.25,
    5.0: 0.5,
    8.0: 8 / 8 * 128 / 130,
    16.0: 16 / 8 * 128 / 130,
    32.0: 32 / 8 * 128 / 130,
    64.0: 64 / 8 * 236 / 256,
}

_NVIDIA, _AMD = "0x10de", "0x1002"

# NVSwitches are of the class "other bridge", 0x0680 (pci.ids).
_NVSWITCH_CLASS = "0x0680"


class PciePort(BaseModel):
    """One end of a PCIe link: its maximum, and the link's current state.

    Attributes:
        speed: Maximum speed in GT/s.
        width: Maximum number of lanes, such as 16.
        speed_now: Current speed in GT/s; idle links slow down.
        width_now: Current number of lanes; idle links keep their width.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    speed: float
    width: int
    speed_now: float | None = None
    width_now: int | None = None


class PciePath(BaseModel):
    """The PCIe path between a card and its processor.

    Attributes:
        address: PCI address of the card, such as ``0000:19:00.0``.
        card: Card's end of its link; with bridges on the card, the bridge in the slot.
        slot: Other end of the link, at a root port or switch; None if a virtual machine hides it.
        upstream: Links from the slot to the processor, each with the lower values of its two ends.
        bridges: Addresses from the host bridge, ``pci0000:16``, down to the card's own.
        numa_node: NUMA node that is nearest to the card; None if unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    card: PciePort
    slot: PciePort | None = None
    upstream: tuple[PciePort, ...] = ()
    bridges: tuple[str, ...] = ()
    numa_node: int | None = None

    @property
    def speed(self) -> float:
        """Maximum speed that card and slot both support, in GT/s."""
        return self.card.speed if self.slot is None else min(self.card.speed, self.slot.speed)

    @property
    def width(self) -> int:
        """Number of lanes that card and slot both have; the lanes in use if the slot is hidden."""
        if self.slot is None:
            return self.card.width_now or self.card.width
        return min(self.card.width, self.slot.width)

    @property
    def bytes_per_s(self) -> float:
        """Bytes/s of the slowest link to the processor, one way, including packet headers."""
        ends = [(self.speed, self.width), *((port.speed, port.width) for port in self.upstream)]
        return min(_LANE[speed] * width * 1e9 for speed, width in ends)


def read_pcie_path(address: str, root: Path = Path("/")) -> PciePath | None:
    """Read the PCIe path of a card; None if the kernel does not report it.

    Args:
        address: PCI address of the card, such as ``0000:19:00.0``.
        root: Directory with ``sys``; for tests.
    """
    try:
        own = (root / "sys/bus/pci/devices" / address).resolve(strict=True)
    except OSError:
        return None
    chain = [own, *_parents(own)]
    # Bridges between a Radeon's or Instinct's chip and its slot are on the card.
    while len(chain) > 1 and _text(chain[0] / "vendor") == _text(chain[1] / "vendor") == _AMD:
        chain.pop(0)
    card, *ports = chain
    end = _port(card)
    if end is None:
        return None
    slot = _port(ports[0]) if ports else None
    if slot is not None and not _is_real(slot, end):
        slot, ports = None, []
    upstream = [_lesser(_port(low), _port(high)) for low, high in itertools.pairwise(ports[1:])]
    host = next((part for part in own.parts if re.fullmatch(r"pci[0-9a-f]+:[0-9a-f]+", part)), None)
    names = [device.name for device in reversed([own, *_parents(own)])]
    node = _text(own / "numa_node")
    return PciePath(
        address=address,
        card=end,
        slot=slot,
        upstream=tuple(port for port in upstream if port is not None),
        bridges=(*([host] if host else []), *names),
        numa_node=int(node) if node and node.isdecimal() else None,
    )


def count_nvswitches(root: Path = Path("/")) -> int:
    """Return the number of NVSwitches on the bus.

    Args:
        root: Directory with ``sys``; for tests.
    """
    return sum(
        _text(device / "vendor") == _NVIDIA
        and (_text(device / "class") or "").startswith(_NVSWITCH_CLASS)
        for device in (root / "sys/bus/pci/devices").glob("*")
    )


def _parents(device: Path) -> Iterator[Path]:
    """Yield the bridges above a device, nearest first."""
    for parent in device.parents:
        if not re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", parent.name):
            return
        yield parent


def _port(device: Path) -> PciePort | None:
    speed, width = _speed(device, "max"), _number(device, "max")
    if speed is None or not width:
        return None
    return PciePort(
        speed=speed,
        width=width,
        speed_now=_speed(device, "current"),
        width_now=_number(device, "current"),
    )


def _is_real(slot: PciePort, card: PciePort) -> bool:
    """Return whether a slot can have the card's link; a virtual machine's ports have no lanes."""
    return (card.width_now or 0) <= slot.width and (card.speed_now or 0) <= slot.speed


def _lesser(low: PciePort | None, high: PciePort | None) -> PciePort | None:
    if low is None or high is None:
        return None
    return PciePort(speed=min(low.speed, high.speed), width=min(low.width, high.width))


def _speed(device: Path, when: str) -> float | None:
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", _text(device / f"{when}_link_speed") or "")
    return float(match[1]) if match and float(match[1]) in _LANE else None


def _number(device: Path, when: str) -> int | None:
    text = _text(device / f"{when}_link_width")
    # A port without a link reports 0, an unknown width is 255.
    return int(text) if text and text.isdecimal() and 0 < int(text) <= 32 else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None

"""Rules on the links of cards to the machine, and of GPUs to each other."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tarmac.checks.rates import chip_of
from tarmac.checks.rules.rule import Hits, Rule, measured_devices, place_of, probes_of
from tarmac.machine import find_chip

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence, Inventory, Probe
    from tarmac.machine import Gpu, PciePath

# Fraction of PCIe's bandwidth that copies of pinned memory reach; headers and flow control take the
# rest. Eight H200 reach 0.88 of PCIe 5.0 x16
# (https://github.com/stas00/ml-engineering/tree/master/network#pcie).
_REACHED = 0.8

# Fraction of that rate below which copies get a warning.
_SLOW_COPIES = 0.6

# Bytes/s of pinned memory over PCIe 3.0 x8, the slowest link that a current card should have. Used
# where the kernel does not report the link.
_SLOWEST_LINK = 6e9

# Fraction of the rate of similar pairs, or of machines like this one, below which a rate gets a
# warning.
_SLOW = 0.5

# Number of GPUs of the machines whose all-reduce rate is known.
_BOARD = 8


def _pcie_narrow(evidence: Evidence) -> Hits:
    # Idle links of NVIDIA's cards keep their lanes; for AMD's cards that is not certain.
    inventory = evidence.inventory
    for gpu in _answering(inventory):
        path = inventory.topology.path_of(gpu.address)
        if path is None:
            # The driver's maximum is the card's and not the slot's, but nothing better is known.
            width, most = gpu.pcie.get("width"), gpu.pcie.get("max_width")
            if width and most and width < most:
                yield gpu.label, f"x{width} of x{most}"
        elif _uses_pcie(gpu) and path.slot is not None:
            now = path.card.width_now
            if now is not None and now < path.width:
                yield gpu.label, f"{path.address}: x{now} of x{path.width}"


def _pcie_slot_narrow(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    labels = {gpu.address: gpu.label for gpu in inventory.gpus}
    other = {gpu.address for gpu in inventory.gpus if not _uses_pcie(gpu)}
    for path in inventory.topology.pcie:
        if path.width < path.card.width and path.address not in other:
            unseen = "" if path.slot else ", as the virtual machine shows it"
            words = f"x{path.width} of the card's x{path.card.width}{unseen}"
            yield labels.get(path.address, f"card {path.address}"), words


def _slow_copies(evidence: Evidence) -> Hits:
    for probe, device in measured_devices(evidence):
        copies = device.get("copies") or {}
        path = _path_of(device, evidence.inventory)
        expected = None if path is None else _REACHED * path.bytes_per_s
        least = _SLOWEST_LINK if expected is None else _SLOW_COPIES * expected
        for direction in ("to_device", "from_device"):
            rate = copies.get(direction)
            if rate and rate < least and copies.get("pinned", True):
                words = f"{rate / 1e9:.1f} GB/s {direction.replace('_', ' the ')}"
                if path is not None and expected is not None:
                    link = f"x{path.width} at {path.speed:g} GT/s"
                    words += f", where {link} carries {expected / 1e9:.0f}"
                yield place_of(probe, device), words


def _path_of(device: Mapping[str, Any], inventory: Inventory) -> PciePath | None:
    """Return the PCIe path of a probe's device; None where unknown or not joined by PCIe."""
    gpus = _answering(inventory)
    chip, uuid = chip_of(device), device.get("uuid")
    if device["kind"] != "gpu" or (chip is not None and not chip.pcie_host):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid == uuid] if uuid else gpus
    return inventory.topology.path_of(matches[0].address) if len(matches) == 1 else None


def _answering(inventory: Inventory) -> list[Gpu]:
    return [gpu for gpu in inventory.gpus if gpu.error is None]


def _uses_pcie(gpu: Gpu) -> bool:
    chip = find_chip(gpu.name, memory_bytes=gpu.memory_bytes)
    return chip is None or chip.pcie_host


def _nvlink_down(evidence: Evidence) -> Hits:
    gpus = [gpu for gpu in _answering(evidence.inventory) if gpu.nvlinks and not gpu.mig]
    for gpu in gpus:
        others = [other for other in gpus if other.index != gpu.index]
        why = _all_down(gpu, others, evidence) if not any(gpu.nvlinks) else _some_down(gpu, others)
        if why is not None:
            yield gpu.label, why


def _all_down(gpu: Gpu, others: list[Gpu], evidence: Evidence) -> str | None:
    """Return why a GPU's NVLinks should be up; None for single GPUs and cards without a bridge."""
    topology = evidence.inventory.topology
    alike = [other.label for other in others if other.name == gpu.name and any(other.nvlinks)]
    down = f"all {len(gpu.nvlinks)} NVLinks are down"
    if alike and _is_on_board(gpu):
        return f"{down}, while some of {alike[0]} are up"
    if others and topology.num_nvswitches and _is_on_board(gpu):
        return f"{down}, with {topology.num_nvswitches} NVSwitches present"
    for pair in topology.nvlink_pairs:
        if gpu.index in (pair.first, pair.second):
            ends = f"GPU {pair.first} and GPU {pair.second}"
            return f"{down}, though the driver lists {ends} as connected"
    return None


def _some_down(gpu: Gpu, others: list[Gpu]) -> str | None:
    if all(gpu.nvlinks):
        return None
    alike = [sum(other.nvlinks) for other in others if other.name == gpu.name]
    chip = find_chip(gpu.name, memory_bytes=gpu.memory_bytes)
    # A bridge uses some links of a card, and leaves the others down.
    takes_bridges = (chip is not None and not chip.nvlink_board) or (chip is None and alike)
    if takes_bridges and all(count <= sum(gpu.nvlinks) for count in alike):
        return None
    down = [str(number) for number, is_up in enumerate(gpu.nvlinks) if not is_up]
    return f"NVLink {', '.join(down)} of {len(gpu.nvlinks)}"


def _is_on_board(gpu: Gpu) -> bool:
    chip = find_chip(gpu.name, memory_bytes=gpu.memory_bytes)
    return chip is not None and chip.nvlink_board


def _slow_pair(evidence: Evidence) -> Hits:
    for probe, device in _teams(evidence):
        kinds: dict[str, dict[tuple[int, int], float]] = {}
        for pair in device.get("pairs") or ():
            ends = (pair["from"], pair["to"])
            kind = _link_kind(ends, pair, device, evidence.inventory)
            kinds.setdefault(kind, {})[ends] = pair["bytes_per_s"]
        for kind, rates in kinds.items():
            usual = statistics.median(rates.values())
            for (a, b), rate in rates.items():
                if rate < _SLOW * usual:
                    words = (
                        f"{rate / 1e9:.3g} GB/s, where pairs {kind} usually reach {usual / 1e9:.3g}"
                    )
                    yield f"{probe.label} on cuda:{a} to cuda:{b}", words


def _link_kind(
    ends: tuple[int, int], pair: Mapping[str, Any], device: Mapping[str, Any], inventory: Inventory
) -> str:
    """Return the kind of link between two GPUs, as words that follow "pairs"."""
    uuids = device.get("uuids") or ()
    by_uuid = {gpu.uuid: gpu for gpu in _answering(inventory)}
    first, second = (by_uuid.get(uuids[end]) if end < len(uuids) else None for end in ends)
    if first is None or second is None:
        return "with access to each other" if pair.get("peer") else "without access to each other"
    indices = sorted((first.index, second.index))
    for joined in inventory.topology.nvlink_pairs:
        if [joined.first, joined.second] == indices:
            count = f"{joined.num_links} " if joined.num_links else ""
            return f"joined by {count}NVLink"
    topology = inventory.topology
    return _pcie_kind(topology.path_of(first.address), topology.path_of(second.address))


def _pcie_kind(first: PciePath | None, second: PciePath | None) -> str:
    """Return the closest common part of two paths: NVIDIA's PIX and PXB, PHB, NODE or SYS."""
    if first is None or second is None:
        return "over PCIe"
    shared = 0
    for a, b in zip(first.bridges, second.bridges, strict=False):
        if a != b:
            break
        shared += 1
    # The first bridge is the host bridge, the second a root port.
    if shared > 1:
        return "below one PCIe switch"
    if shared == 1:
        return "at one PCIe host bridge"
    if first.numa_node == second.numa_node:
        return "at one processor"
    return "at two processors"


def _slow_all_reduce(evidence: Evidence) -> Hits:
    for probe, device in _teams(evidence):
        names = list(device.get("chips") or ())
        chip = find_chip(names[0]) if len(names) == _BOARD and len(set(names)) == 1 else None
        rate = device.get("bus_bytes_per_s")
        if chip is None or chip.all_reduce_8 is None or not rate:
            continue
        if rate < _SLOW * chip.all_reduce_8 * 1e9:
            size = device.get("message_bytes", 0) / 2**20
            words = f"{rate / 1e9:.3g} GB/s of the bus in messages of {size:.0f} MiB"
            usual = f"where {_BOARD} x {chip.name} reach {chip.all_reduce_8:g} in large ones"
            yield place_of(probe, device), f"{words}, {usual}"


def _teams(evidence: Evidence) -> Iterator[tuple[Probe, Mapping[str, Any]]]:
    for probe in probes_of(evidence, "all-reduce"):
        for device in probe.result.get("devices", ()):
            if device["kind"] == "gpu":
                yield probe, device


RULES: Mapping[str, Rule] = {
    "pcie-narrow": _pcie_narrow,
    "pcie-slot-narrow": _pcie_slot_narrow,
    "slow-copies": _slow_copies,
    "nvlink-down": _nvlink_down,
    "slow-pair": _slow_pair,
    "slow-all-reduce": _slow_all_reduce,
}

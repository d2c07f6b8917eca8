"""Recorded failures of ``failures/links.toml``, by code."""

from __future__ import annotations

import itertools
from typing import Any

from recorded.evidence import DRIVER, H200, done, gpu, machine, on_gpu
from tarmac.checks.evidence import Evidence, Inventory, Topology
from tarmac.machine import Gpu, NvlinkPair, PciePath, PciePort

ADDRESS = "0000:19:00.0"


def end(width: int, now: int | None = None, speed: float = 32.0) -> PciePort:
    # Idle: slower than it can be, and as wide.
    return PciePort(speed=speed, width=width, speed_now=2.5, width_now=now or width)


def path(card: PciePort, slot: PciePort | None, **facts: Any) -> PciePath:
    bridges = ("pci0000:16", "0000:16:01.0", ADDRESS)
    return PciePath(address=ADDRESS, card=card, slot=slot, **({"bridges": bridges} | facts))


WHOLE = path(end(16), end(16))
# A card with 16 lanes behind a riser that has one, on a root port with 16.
RISER = path(end(16, now=1), end(16, now=1))
SLOT_X8 = path(end(16, now=8), end(8))
# A virtual machine that shows the card, and no port above it.
GUEST = path(end(16, now=8), None, bridges=("pci0000:00", ADDRESS))


def joined(*paths: PciePath, gpus: tuple[Gpu, ...] = (), **facts: Any) -> Inventory:
    """Return a machine whose cards are joined to it like that."""
    cards = gpus or (H200.model_copy(update={"address": ADDRESS}),)
    return machine(cards, driver=DRIVER, topology=Topology(**({"pcie": paths} | facts)))


def at_rest(*paths: PciePath, **facts: Any) -> Evidence:
    return Evidence(inventory=joined(*paths, **facts))


def copying(link: PciePath, rate: float) -> Evidence:
    """Return what copies between host and device reached."""
    device = {"name": "cuda:0", "kind": "gpu", "chip": "NVIDIA H200", "uuid": H200.uuid}
    found = {"copies": {"to_device": rate, "from_device": rate, "pinned": True}}
    return done("torch", joined(link), devices=[device | found])


def nvlinks(*ups: int, of: int = 18, name: str = "NVIDIA H200", **facts: Any) -> Evidence:
    """Return GPUs of which so many NVLinks are up."""
    gpus = tuple(
        H200.model_copy(
            update={
                "index": index,
                "name": name,
                "memory_bytes": None,
                "nvlinks": (True,) * up + (False,) * (of - up),
            }
        )
        for index, up in enumerate(ups)
    )
    return Evidence(inventory=joined(gpus=gpus, **facts))


def team(
    rates: dict[tuple[int, int], float],
    count: int = 8,
    bus: float = 400.0,
    chip: str = "NVIDIA H200",
    **facts: Any,
) -> Evidence:
    """Return what ranks over NCCL measured, one GPU each.

    Args:
        rates: GB/s of copies between pairs; all others have 180.
    """
    gpus = tuple(
        H200.model_copy(update={"index": n, "uuid": f"GPU-{n}", "address": f"0000:{n}9:00.0"})
        for n in range(count)
    )
    pairs = [
        {
            "from": a,
            "to": b,
            "ok": True,
            "peer": True,
            "bytes_per_s": rates.get((a, b), 180.0) * 1e9,
        }
        for a, b in itertools.permutations(range(count), 2)
    ]
    device = {
        "name": f"{count} ranks by nccl",
        "kind": "gpu",
        "bus_bytes_per_s": bus * 1e9,
        "message_bytes": 2**28,
        "chips": [chip] * count,
        "uuids": [gpu.uuid for gpu in gpus],
        "pairs": pairs,
    }
    return done("all-reduce", joined(gpus=gpus, **facts), devices=[device])


def everywhere(count: int, num_links: int = 0) -> tuple[NvlinkPair, ...]:
    return tuple(
        NvlinkPair(first=a, second=b, num_links=num_links)
        for a, b in itertools.combinations(range(count), 2)
    )


def two_sockets(count: int) -> tuple[PciePath, ...]:
    """Return paths of which one half leads to each of two processors, each over a switch."""
    return tuple(
        PciePath(
            address=f"0000:{n}9:00.0",
            card=end(16),
            slot=end(16),
            bridges=(
                f"pci0000:{n * 2 // count}0",
                f"0000:{n * 2 // count}0:01.0",
                f"0000:{n}9:00.0",
            ),
            numa_node=n * 2 // count,
        )
        for n in range(count)
    )


def across(count: int, rate: float) -> dict[tuple[int, int], float]:
    """Return the rates of pairs whose GPUs are at two processors."""
    return {
        (a, b): rate
        for a, b in itertools.permutations(range(count), 2)
        if (a < count // 2) != (b < count // 2)
    }


# A hybrid cube mesh: half of the pairs that are joined have two links, and twice the rate.
MESH = (
    NvlinkPair(first=0, second=1, num_links=1),
    NvlinkPair(first=0, second=2, num_links=1),
    NvlinkPair(first=0, second=3, num_links=2),
    NvlinkPair(first=1, second=2, num_links=2),
    NvlinkPair(first=1, second=3, num_links=2),
    NvlinkPair(first=2, second=3, num_links=2),
)
MESH_RATES = {(0, 1): 24.0, (1, 0): 24.0, (0, 2): 24.0, (2, 0): 24.0} | {
    ends: 48.5
    for pair in MESH[2:]
    for ends in ((pair.first, pair.second), (pair.second, pair.first))
}

RECORDED: dict[str, list[Evidence]] = {
    "pcie-narrow": [
        gpu(pcie={"width": 4, "max_width": 16}),
        at_rest(RISER),
        at_rest(path(end(16, now=4), end(8, now=4))),
    ],
    "pcie-slot-narrow": [at_rest(SLOT_X8), at_rest(GUEST)],
    "slow-copies": [
        on_gpu("torch", copies={"to_device": 2e9, "from_device": 2.1e9}),
        # More than the slowest link has, and a fifth of what this one has.
        copying(WHOLE, 12e9),
    ],
    "nvlink-down": [
        gpu(nvlinks=(True, False, True)),
        nvlinks(18, 0),
        nvlinks(0, 0, num_nvswitches=4),
        nvlinks(0, 0, of=4, name="NVIDIA RTX A6000", nvlink_pairs=everywhere(2)),
        # One of two bridges is gone from one of these.
        nvlinks(8, 4, of=12, name="NVIDIA A100 80GB PCIe"),
    ],
    "slow-pair": [
        team({(2, 5): 30.0}, nvlink_pairs=everywhere(8)),
        # PCIe between two sockets is slow, and half of that too slow.
        team({**across(4, 20.0), (0, 3): 8.0}, count=4, pcie=two_sockets(4)),
        team({(0, 1): 11.0}),
    ],
    "slow-all-reduce": [team({}, bus=120.0)],
}

# What comes close, and is no such failure, by code.
CLOSE: dict[str, list[Evidence]] = {
    "pcie-narrow": [
        gpu(pcie={"generation": 1, "max_generation": 5, "width": 8, "max_width": 8}),
        at_rest(WHOLE),
        at_rest(SLOT_X8),
        at_rest(GUEST),
        # Joined to its processor by NVLink-C2C.
        at_rest(
            RISER,
            gpus=(H200.model_copy(update={"address": ADDRESS, "name": "NVIDIA GB200"}),),
        ),
    ],
    "pcie-slot-narrow": [
        at_rest(WHOLE),
        at_rest(RISER),
        # A card with 8 lanes, in a slot with 16.
        at_rest(path(end(8), end(16, now=8))),
    ],
    "slow-copies": [
        on_gpu("torch", copies={"to_device": 6.5e9, "from_device": 6.5e9}),
        on_gpu("jax", copies={"to_device": 4e9, "from_device": 4e9, "pinned": False}),
        copying(WHOLE, 31e9),
        # As fast as their slots: eight lanes of PCIe 3.0, four of them.
        copying(path(end(16, now=8), end(8, speed=8.0)), 6.2e9),
        copying(path(end(16, now=4), end(4, speed=8.0)), 3.1e9),
        # A switch with a narrower way to the processor.
        copying(path(end(16), end(16), upstream=(PciePort(speed=16.0, width=8),)), 12e9),
    ],
    "nvlink-down": [
        gpu(nvlinks=(False,) * 4),
        gpu(nvlinks=(True,) * 18),
        nvlinks(18, 18, num_nvswitches=4),
        # Cards without bridges, and with one for two of four.
        nvlinks(0, 0, of=12, name="NVIDIA A100 80GB PCIe"),
        nvlinks(4, 4, 0, 0, of=12, name="NVIDIA A100 80GB PCIe"),
        # A single one in a virtual machine, cut off from the switches.
        nvlinks(0, num_nvswitches=4),
        Evidence(
            inventory=machine(
                tuple(
                    H200.model_copy(update={"index": n, "nvlinks": (n == 0,) * 18, "mig": n == 1})
                    for n in range(2)
                ),
                driver=DRIVER,
            )
        ),
    ],
    "slow-pair": [
        team({(2, 5): 100.0}, nvlink_pairs=everywhere(8)),
        team(across(4, 20.0), count=4, pcie=two_sockets(4)),
        team(MESH_RATES, count=4, nvlink_pairs=MESH),
    ],
    "slow-all-reduce": [
        team({}, bus=260.0),
        # Of four, and of chips that are joined by PCIe, nothing is known.
        team({}, count=4, bus=40.0),
        team({}, bus=10.0, chip="NVIDIA L40S"),
    ],
}

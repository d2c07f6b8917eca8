"""The devices that a framework computed on, as their maker, driver or kernel describes them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.checks.evidence import Inventory, Probe
    from tarmac.machine import Gpu


@dataclasses.dataclass(frozen=True)
class ProbedDevice:
    """A device that a framework computed on.

    Attributes:
        device: What the probe calls it, ``cuda:0``.
        name: What its maker calls it; empty where nobody says.
        capability: CUDA's compute capability, ``9.0``; empty where it has none.
        memory_bytes: Memory in all; None where it is unknown.
    """

    device: str
    name: str = ""
    capability: str = ""
    memory_bytes: int | None = None


def describe_devices(probe: Probe, inventory: Inventory) -> tuple[ProbedDevice, ...]:
    """Return the devices of a probe.

    What the framework does not say of a GPU is the driver's, where all GPUs are of one kind: a
    framework may count them in another order.
    """
    kinds = {(gpu.name, gpu.capability, gpu.memory_bytes) for gpu in inventory.gpus}
    known = inventory.gpus[0] if len(kinds) == 1 else None
    devices = probe.result.get("devices", ())
    return tuple(_describe(device, known, inventory) for device in devices)


def _describe(device: Mapping[str, Any], known: Gpu | None, inventory: Inventory) -> ProbedDevice:
    name = str(device["name"])
    if name == "cpu":
        return ProbedDevice(name, inventory.host.cpu, "", inventory.usable_memory_bytes)
    # Several processes are no device.
    if device["kind"] != "gpu" or not name.startswith("cuda:"):
        return ProbedDevice(name)
    capability = device.get("capability") or (known and known.capability) or ()
    return ProbedDevice(
        name,
        str(device.get("chip") or (known and known.name) or ""),
        ".".join(map(str, capability)),
        device.get("memory_bytes") or (known.memory_bytes if known else None),
    )

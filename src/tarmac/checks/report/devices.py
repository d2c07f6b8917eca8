"""The devices that a framework computed on, as their vendor, driver or kernel describes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarmac.checks.evidence import Inventory, Probe
    from tarmac.machine import Gpu


@dataclasses.dataclass(frozen=True)
class ProbedDevice:
    """A device that a framework computed on.

    Attributes:
        device: Name of the device in the probe's result, such as ``cuda:0``.
        name: Vendor's name of the chip; empty where it is unknown.
        capability: CUDA compute capability, such as ``9.0``; empty where it is unknown.
        memory_bytes: Total memory in bytes; None where it is unknown.
    """

    device: str
    name: str = ""
    capability: str = ""
    memory_bytes: int | None = None


def describe_devices(probe: Probe, inventory: Inventory) -> tuple[ProbedDevice, ...]:
    """Return the devices of a probe.

    Facts about a GPU that the framework does not report come from the driver. They are used only
    where all GPUs are of one kind, as a framework may count GPUs in another order.
    """
    kinds = {(gpu.name, gpu.capability, gpu.memory_bytes) for gpu in inventory.gpus}
    known = inventory.gpus[0] if len(kinds) == 1 else None
    devices = probe.result.get("devices", ())
    return tuple(_describe(device, known, inventory) for device in devices)


def _describe(device: Mapping[str, Any], known: Gpu | None, inventory: Inventory) -> ProbedDevice:
    name = str(device["name"])
    if name == "cpu":
        return ProbedDevice(name, inventory.host.cpu, "", inventory.usable_memory_bytes)
    # An entry for several processes is no single device.
    if device["kind"] != "gpu" or not name.startswith("cuda:"):
        return ProbedDevice(name)
    capability = device.get("capability") or (known and known.capability) or ()
    return ProbedDevice(
        name,
        str(device.get("chip") or (known and known.name) or ""),
        ".".join(map(str, capability)),
        device.get("memory_bytes") or (known.memory_bytes if known else None),
    )

"""Rules on NVIDIA's driver and its kernel modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.rule import Hits, Rule


def _no_driver(evidence: Evidence) -> Hits:
    driver, cards = evidence.inventory.driver, evidence.inventory.nvidia_cards
    is_loaded = bool({"nvidia", "nouveau"} & set(driver.modules))
    if cards and not is_loaded and driver.nvml_error and not evidence.inventory.is_confined:
        yield "machine", f"a card at {', '.join(cards)}, no driver module is loaded"


def _nouveau(evidence: Evidence) -> Hits:
    if "nouveau" in evidence.inventory.driver.modules and evidence.inventory.nvidia_cards:
        yield "machine", "/proc/modules has nouveau"


def _driver_mismatch(evidence: Evidence) -> Hits:
    driver = evidence.inventory.driver
    if driver.version and driver.module_version and driver.version != driver.module_version:
        yield "machine", f"module {driver.module_version}, library {driver.version}"


def _module_missing(evidence: Evidence) -> Hits:
    driver = evidence.inventory.driver
    is_loaded = driver.nvml_error is None or "nvidia" in driver.modules
    is_here = bool(evidence.inventory.nvidia_cards) and not evidence.inventory.is_confined
    if driver.library is not None and not is_loaded and is_here:
        yield "machine", f"{driver.library} is installed, /proc/modules has no nvidia"


def _uvm_missing(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    nodes = inventory.container.device_nodes
    devices = [device for probe in evidence.probes for device in probe.result.get("devices", ())]
    # CUDA itself makes the node at its first use since the boot, through nvidia-modprobe.
    is_used = any(device["kind"] == "gpu" for device in devices)
    is_tried = evidence.inventory.is_confined or any(
        (probe.result.get("build") or {}).get("cuda") for probe in evidence.probes
    )
    if inventory.gpus and nodes and "nvidia-uvm" not in nodes and is_tried and not is_used:
        yield "machine", "NVML works, /dev/nvidia-uvm does not exist"


# Blackwell's compute capability. The failure was seen most on machines with several such GPUs
# (ollama, issue 11593).
_BLACKWELL = (10, 0)


def _hmm(evidence: Evidence) -> Hits:
    newest = [gpu for gpu in evidence.inventory.gpus if (gpu.capability or (0, 0)) >= _BLACKWELL]
    for probe in evidence.probes:
        # A process that was forked after CUDA's initialization has the same error, on any GPU.
        if len(newest) > 1 and "initialization error" in probe.text:
            yield probe.label, f"initialization error, with {len(newest)} GPUs {newest[0].name}"


RULES: Mapping[str, Rule] = {
    "no-driver": _no_driver,
    "nouveau-loaded": _nouveau,
    "driver-mismatch": _driver_mismatch,
    "module-missing": _module_missing,
    "uvm-missing": _uvm_missing,
    "hmm": _hmm,
}

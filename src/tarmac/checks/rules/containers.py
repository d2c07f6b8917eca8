"""Rules on containers and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tarmac.wording import counted

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.rule import Hits, Rule


def _no_gpus_flag(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    has_nodes = any(name.startswith("nvidia") for name in inventory.container.device_nodes)
    is_loaded = "nvidia" in inventory.driver.modules
    if inventory.is_confined and is_loaded and not has_nodes and not inventory.gpus:
        kind = inventory.container.kind
        yield "machine", f"in {kind}: module nvidia is loaded, no /dev/nvidia* exists"


def _driver_caps(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    if not inventory.is_confined or "nvidiactl" not in inventory.container.device_nodes:
        return
    if (
        inventory.driver.library is None
        or "NOT FOUND" in (inventory.driver.nvml_error or "").upper()
    ):
        value = inventory.environment.get("NVIDIA_DRIVER_CAPABILITIES", "not set")
        yield "machine", f"/dev/nvidiactl without the driver's libraries; the variable is {value}"


def _wsl_libcuda(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    is_wsl = inventory.container.kind == "wsl" and "dxg" in inventory.container.device_nodes
    if is_wsl and inventory.driver.library is None:
        yield "machine", "/dev/dxg exists, libcuda.so.1 is not found"


def _cgroup_cpu(evidence: Evidence) -> Hits:
    cpus, gpus = evidence.inventory.limits.cpus, evidence.inventory.gpus
    if gpus and cpus is not None and cpus < 2 * len(gpus):
        yield "machine", f"{counted(cpus, 'CPU')} for {counted(len(gpus), 'GPU')}"


RULES: Mapping[str, Rule] = {
    "no-gpus-flag": _no_gpus_flag,
    "driver-caps": _driver_caps,
    "wsl-libcuda": _wsl_libcuda,
    "cgroup-cpu": _cgroup_cpu,
}

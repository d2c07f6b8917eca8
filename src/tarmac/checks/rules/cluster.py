"""Rules on containers, limits and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.checks.rules.registry import is_confined, rule

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.registry import Hits

_SMALL_SHM = 512 * 2**20


@rule("no-gpus-flag")
def _no_gpus_flag(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    has_nodes = any(name.startswith("nvidia") for name in inventory.container.device_nodes)
    is_loaded = "nvidia" in inventory.driver.modules
    if is_confined(evidence) and is_loaded and not has_nodes and not inventory.gpus:
        yield "machine", f"in {inventory.container.kind}: the module nvidia, and no /dev/nvidia*"


@rule("driver-caps")
def _driver_caps(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    if not is_confined(evidence) or "nvidiactl" not in inventory.container.device_nodes:
        return
    if (
        inventory.driver.library is None
        or "NOT FOUND" in (inventory.driver.nvml_error or "").upper()
    ):
        value = inventory.environment.get("NVIDIA_DRIVER_CAPABILITIES", "not set")
        yield "machine", f"/dev/nvidiactl is here, libraries are not; the variable is {value}"


@rule("shm-small")
def _shm_small(evidence: Evidence) -> Hits:
    size = evidence.inventory.limits.shm_bytes
    if size is not None and size < _SMALL_SHM:
        yield "machine", f"/dev/shm has {size / 2**20:.0f} MiB"  # noqa: S108 - nothing is put there


@rule("memlock")
def _memlock(evidence: Evidence) -> Hits:
    limits = evidence.inventory.limits
    if limits.infiniband and limits.memlock_bytes is not None:
        yield "machine", f"{limits.memlock_bytes / 2**20:.1f} MiB"


@rule("wsl-libcuda")
def _wsl_libcuda(evidence: Evidence) -> Hits:
    inventory = evidence.inventory
    is_wsl = inventory.container.kind == "wsl" and "dxg" in inventory.container.device_nodes
    if is_wsl and inventory.driver.library is None:
        yield "machine", "/dev/dxg is here, libcuda.so.1 is not found"


@rule("cgroup-cpu")
def _cgroup_cpu(evidence: Evidence) -> Hits:
    cpus, gpus = evidence.inventory.limits.cpus, evidence.inventory.gpus
    if gpus and cpus is not None and cpus < 2 * len(gpus):
        yield "machine", f"{cpus:g} CPUs for {len(gpus)} GPUs"


def _together(evidence: Evidence, kind: str) -> Hits:
    for probe in evidence.probes:
        judged = probe.result.get("all_reduce")
        if judged is not None and judged.get("problem") == kind:
            yield probe.label, judged["detail"]


@rule("all-reduce-wrong")
def _all_reduce_wrong(evidence: Evidence) -> Hits:
    yield from _together(evidence, "wrong")


@rule("all-reduce-hung")
def _all_reduce_hung(evidence: Evidence) -> Hits:
    yield from _together(evidence, "hung")

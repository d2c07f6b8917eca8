"""Rules on the state of GPUs and their links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.checks.rules.rule import for_each_gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.checks.evidence import Evidence
    from tarmac.checks.rules.rule import Hits, Rule
    from tarmac.machine import Gpu

_HELD_SHARE = 0.05


def _fell_off_bus(evidence: Evidence) -> Hits:
    for gpu in evidence.inventory.gpus:
        if gpu.error and "lost" in gpu.error:
            yield gpu.label, gpu.error


def _ecc(gpu: Gpu) -> str | None:
    seen = []
    if gpu.uncorrected_errors:
        seen.append(f"{gpu.uncorrected_errors} uncorrected since the driver was loaded")
    if gpu.remap_failed:
        seen.append("remapping of rows has failed")
    if gpu.retired_pages_pending:
        seen.append("pages or rows wait to be replaced")
    return ", ".join(seen) or None


def _throttle_thermal(gpu: Gpu) -> str | None:
    reasons = {"sw_thermal", "hw_thermal"} & set(gpu.slowdowns)
    return f"{', '.join(sorted(reasons))} at {gpu.temperature_c} °C" if reasons else None


def _throttle_power(gpu: Gpu) -> str | None:
    if "sw_power_cap" not in gpu.slowdowns:
        return None
    now, limit = gpu.power_watts.get("now"), gpu.power_watts.get("limit")
    return f"sw_power_cap at {now} W of {limit} W"


def _throttle_hardware(gpu: Gpu) -> str | None:
    reasons = {"hw_slowdown", "hw_power_brake"} & set(gpu.slowdowns)
    # Hardware slows down for heat too, which it then says.
    if not reasons or "hw_thermal" in gpu.slowdowns:
        return None
    return ", ".join(sorted(reasons))


def _exclusive(gpu: Gpu) -> str | None:
    if gpu.compute_mode != "exclusive process" or not gpu.processes:
        return None
    return f"compute mode exclusive process, held by process {gpu.processes[0].pid}"


def _prohibited(gpu: Gpu) -> str | None:
    return "compute mode prohibited" if gpu.compute_mode == "prohibited" else None


def _mig_empty(gpu: Gpu) -> str | None:
    return "MIG is on, no instance is there" if gpu.mig and not gpu.mig_devices else None


def _mem_held(gpu: Gpu) -> str | None:
    held = sum(process.memory_bytes or 0 for process in gpu.processes)
    if not gpu.memory_bytes or held < _HELD_SHARE * gpu.memory_bytes:
        return None
    names = ", ".join(f"{process.name or 'process'} ({process.pid})" for process in gpu.processes)
    return f"{held / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB by {names}"


def _persistence_off(gpu: Gpu) -> str | None:
    return "persistence mode off" if gpu.persistence is False and not gpu.processes else None


RULES: Mapping[str, Rule] = {
    "fell-off-bus": _fell_off_bus,
    "ecc": for_each_gpu(_ecc),
    "throttle-thermal": for_each_gpu(_throttle_thermal),
    "throttle-power": for_each_gpu(_throttle_power),
    "throttle-hardware": for_each_gpu(_throttle_hardware),
    "exclusive-mode": for_each_gpu(_exclusive),
    "compute-prohibited": for_each_gpu(_prohibited),
    "mig-empty": for_each_gpu(_mig_empty),
    "mem-held": for_each_gpu(_mem_held),
    "persistence-off": for_each_gpu(_persistence_off),
}

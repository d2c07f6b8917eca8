"""Rules on the state of GPUs and their links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from tarmac.checks.rules.kernel import logged
from tarmac.checks.rules.rule import Hits, Rule, for_each_gpu, measured_devices

if TYPE_CHECKING:
    from tarmac.checks.evidence import Evidence
    from tarmac.checks.under_load import UnderLoad
    from tarmac.machine import Gpu

_HELD_SHARE = 0.05

# CUDA contexts take some hundred MiB, which the driver lists late or under another process.
_UNSEEN_BYTES = 2**30

# A GPU is judged by its readings, a tenth of a second apart, from this number on. A reason counts
# if it set the clocks in this share of readings, and at least twice: the driver also reports a
# hardware slowdown while clocks change.
_ENOUGH_SAMPLES = 5
_OFTEN = 0.1

# Fraction of the default power limit that still counts as the default, as limits are rounded.
_POWER_TOLERANCE = 0.99

# PCIe replays per minute that NVIDIA's tools for data centers allow
# (https://github.com/NVIDIA/DCGM, dcgm_gpu_hardware_limits.h).
_REPLAYS_PER_MINUTE = 8

# Rows that can be remapped for uncorrectable errors; pages that may be retired before a card counts
# as worn out (https://docs.nvidia.com/deploy/dynamic-page-retirement/).
_MAX_ROWS = 512
_MAX_PAGES = 60


def _fell_off_bus(evidence: Evidence) -> Hits:
    yield from logged("fell-off-bus")(evidence)
    for gpu in evidence.inventory.gpus:
        if gpu.error and "lost" in gpu.error:
            yield gpu.label, gpu.error


def _judged_by(
    look: Callable[[Gpu, UnderLoad], str | None],
    otherwise: Callable[[Gpu], str | None] = lambda _: None,
) -> Rule:
    """Return a rule that judges each GPU by its readings under load.

    Args:
        look: Returns the text that shows the failure, for a GPU with enough readings under load.
        otherwise: Returns the text that shows the failure without readings under load; used where
            ``look`` finds no failure.
    """

    def rule(evidence: Evidence) -> Hits:
        loads = {load.index: load for load in evidence.under_load}
        for gpu in evidence.inventory.gpus:
            load = loads.get(gpu.index)
            is_read = load is not None and load.samples >= _ENOUGH_SAMPLES
            shown = look(gpu, load) if is_read and load is not None else None
            shown = shown or (otherwise(gpu) if gpu.error is None else None)
            if shown is not None:
                yield gpu.label, shown

    return rule


def _often(load: UnderLoad, *reasons: str) -> str | None:
    """Return in words the given reasons that often set a GPU's clocks; None where none did."""
    shares = {reason: load.reasons.get(reason, 0.0) for reason in reasons}
    kept = [
        f"{reason} {share * 100:.0f} % of the time"
        for reason, share in shares.items()
        if share >= _OFTEN and share * load.samples >= 1.5
    ]
    return f"{', '.join(kept)} under load" if kept else None


def _ecc_under_load(gpu: Gpu, load: UnderLoad) -> str | None:
    grown = load.grown.get("uncorrected_errors", 0)
    shown = _ecc(gpu)
    if grown <= 0:
        return shown
    return ", ".join(filter(None, (shown, f"{grown} uncorrected while probes computed")))


def _ecc(gpu: Gpu) -> str | None:
    seen = []
    if gpu.uncorrected_errors:
        seen.append(f"{gpu.uncorrected_errors} uncorrected since the driver was loaded")
    if gpu.remap_failed:
        seen.append("row remapping failed")
    if gpu.retired_pages_pending:
        seen.append("pages or rows are pending replacement")
    return ", ".join(seen) or None


def _throttle_thermal(gpu: Gpu) -> str | None:
    reasons = {"sw_thermal", "hw_thermal"} & set(gpu.slowdowns)
    return f"{', '.join(sorted(reasons))} at {gpu.temperature_c} °C" if reasons else None


def _throttle_thermal_under_load(_: Gpu, load: UnderLoad) -> str | None:
    often = _often(load, "sw_thermal", "hw_thermal")
    return f"{often}, up to {load.temperature_c} °C" if often else None


def _throttle_power(gpu: Gpu, load: UnderLoad) -> str | None:
    often = _often(load, "sw_power_cap")
    return (
        f"{often}, up to {load.power_watts} W of {gpu.power_watts.get('limit')} W"
        if often
        else None
    )


def _power_limited(gpu: Gpu) -> str | None:
    limit, default = gpu.power_watts.get("limit"), gpu.default_power_watts
    if not limit or not default or limit >= _POWER_TOLERANCE * default:
        return None
    return f"{limit:g} W of {default:g} W"


def _throttle_hardware(gpu: Gpu) -> str | None:
    # A single reading of hw_slowdown does not count, as it is also set while clocks change.
    return "hw_power_brake" if "hw_power_brake" in gpu.slowdowns else None


def _throttle_hardware_under_load(_: Gpu, load: UnderLoad) -> str | None:
    # Slowdowns by heat have their own reason and their own failure.
    if _often(load, "hw_thermal"):
        return None
    return _often(load, "hw_power_brake", "hw_slowdown")


def _too_hot(gpu: Gpu, load: UnderLoad) -> str | None:
    seen = []
    limits, margin = gpu.temperature_limits_c, load.temperature_margin_c
    if margin is not None and margin < 0:
        seen.append(f"{-margin} °C above its maximum operating temperature")
    # Since Ada the margin counts, and the GPU's threshold is no longer maintained.
    operating = limits.get("operating") if margin is None else None
    for part, hottest, limit in (
        ("GPU", load.temperature_c, operating),
        ("memory", load.memory_temperature_c, limits.get("memory")),
    ):
        if hottest is not None and limit is not None and hottest > limit:
            seen.append(f"{part} at {hottest} °C, maximum operating temperature {limit} °C")
    return ", ".join(seen) or None


def _pcie_generation(gpu: Gpu, load: UnderLoad) -> str | None:
    # An idle link lowers its generation to save power, so only readings under load count.
    seen, most = load.pcie.get("generation"), gpu.pcie.get("max_generation")
    return f"PCIe {seen} of {most} under load" if seen and most and seen < most else None


def _pcie_replays(_: Gpu, load: UnderLoad) -> str | None:
    replays = load.grown.get("pcie_replays", 0)
    minutes = max(1.0, load.seconds / 60)
    if replays <= _REPLAYS_PER_MINUTE * minutes:
        return None
    return f"{replays} packets resent in {load.seconds:.0f} s of probes"


def _exclusive(gpu: Gpu) -> str | None:
    if not gpu.is_exclusive or not gpu.processes:
        return None
    return f"compute mode exclusive process, held by process {gpu.processes[0].pid}"


def _prohibited(gpu: Gpu) -> str | None:
    return "compute mode prohibited" if gpu.compute_mode == "prohibited" else None


def _mig_empty(gpu: Gpu) -> str | None:
    return "MIG is on, without an instance" if gpu.mig and not gpu.mig_devices else None


def _mem_held(gpu: Gpu) -> str | None:
    held = sum(process.memory_bytes or 0 for process in gpu.processes)
    if not gpu.memory_bytes or held < _HELD_SHARE * gpu.memory_bytes:
        return None
    names = ", ".join(f"{process.name or 'process'} ({process.pid})" for process in gpu.processes)
    return f"{held / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB by {names}"


def _reset_required(evidence: Evidence) -> Hits:
    known = {None, "none", "reboot", "drain P2P"}
    for gpu in evidence.inventory.gpus:
        if gpu.recovery_action not in known:
            yield gpu.label, f"the driver asks for: {gpu.recovery_action}"


def _asks_for(action: str) -> Rule:
    def look(gpu: Gpu) -> str | None:
        return f"the driver asks for: {action}" if gpu.recovery_action == action else None

    return for_each_gpu(look)


def _fabric_degraded(gpu: Gpu) -> str | None:
    return ", ".join(gpu.fabric.troubles) or None if gpu.fabric else None


def _fabric_manager(evidence: Evidence) -> Hits:
    # Where CUDA computes, it does not need the fabric: a single GPU, or a partition with one GPU.
    computes = any(device["kind"] == "gpu" for _, device in measured_devices(evidence))
    for gpu in evidence.inventory.gpus:
        if gpu.fabric is None:
            continue
        if gpu.fabric.state == "completed" and gpu.fabric.status:
            yield gpu.label, f"joining the fabric ended with NVML's code {gpu.fabric.status}"
        elif gpu.fabric.state != "completed" and not computes:
            yield gpu.label, f"the GPU's registration with the fabric: {gpu.fabric.state}"


def _sram(gpu: Gpu) -> str | None:
    return "the driver's threshold is exceeded" if gpu.sram_threshold_exceeded else None


def _memory_worn(gpu: Gpu) -> str | None:
    rows = gpu.remapped_rows.get("uncorrected", 0)
    if rows >= _MAX_ROWS:
        return f"{rows} rows replaced for uncorrectable errors"
    pages = 0 if gpu.remapped_rows else gpu.retired_pages or 0
    return f"{pages} pages retired" if pages >= _MAX_PAGES else None


def _inforom(gpu: Gpu) -> str | None:
    return "the InfoROM has a wrong checksum" if gpu.inforom_valid is False else None


def _clocks_lowered(gpu: Gpu) -> str | None:
    now, default = (gpu.application_clocks_mhz.get(key) for key in ("now", "default"))
    return f"{now} MHz, by default {default} MHz" if now and default and now < default else None


def _nvlink_errors(gpu: Gpu) -> str | None:
    # A replay after a flipped bit is normal for a link. Recovery means that the link was trained
    # again.
    recoveries = gpu.nvlink_errors.get("recovery", 0)
    if not recoveries:
        return None
    others = ", ".join(f"{name} {count}" for name, count in gpu.nvlink_errors.items() if count)
    return f"since the driver was loaded: {others}"


def _unlicensed(gpu: Gpu) -> str | None:
    return "the driver reports no license" if gpu.licensed is False else None


def _mem_held_unseen(gpu: Gpu) -> str | None:
    # Partitions and virtual machines hold memory that belongs to no process here.
    if gpu.mig or gpu.virtualization in ("vgpu host", "vsga host") or not gpu.memory_bytes:
        return None
    unseen = gpu.unseen_bytes or 0
    if unseen < max(_UNSEEN_BYTES, _HELD_SHARE * gpu.memory_bytes):
        return None
    return f"{unseen / 2**30:.1f} of {gpu.memory_bytes / 2**30:.1f} GiB"


def _differing_facts(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """Yield the settings that GPUs of one model and board should have in common."""
    if gpu.vbios is not None:
        yield "VBIOS", gpu.vbios
    if gpu.ecc is not None:
        yield "ECC", "on" if gpu.ecc else "off"
    if "limit" in gpu.power_watts:
        yield "power limit", f"{gpu.power_watts['limit']:g} W"
    if "now" in gpu.application_clocks_mhz:
        yield "application clock", f"{gpu.application_clocks_mhz['now']} MHz"


def _gpus_differ(evidence: Evidence) -> Hits:
    groups: dict[object, dict[str, dict[str, list[str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for gpu in evidence.inventory.gpus:
        if gpu.error is None:
            for fact, value in _differing_facts(gpu):
                groups[gpu.name, gpu.board][fact][value].append(gpu.label)
    seen = [
        f"{fact}: " + ", ".join(f"{value} ({', '.join(who)})" for value, who in values.items())
        for facts in groups.values()
        for fact, values in facts.items()
        if len(values) > 1
    ]
    if seen:
        yield "machine", "; ".join(seen)


def _persistence_off(gpu: Gpu) -> str | None:
    return "persistence mode off" if gpu.persistence is False and not gpu.processes else None


RULES: Mapping[str, Rule] = {
    "fell-off-bus": _fell_off_bus,
    "ecc": _judged_by(_ecc_under_load, _ecc),
    "throttle-thermal": _judged_by(_throttle_thermal_under_load, _throttle_thermal),
    "throttle-power": _judged_by(_throttle_power),
    "throttle-hardware": _judged_by(_throttle_hardware_under_load, _throttle_hardware),
    "exclusive-mode": for_each_gpu(_exclusive),
    "compute-prohibited": for_each_gpu(_prohibited),
    "mig-empty": for_each_gpu(_mig_empty),
    "mem-held": for_each_gpu(_mem_held),
    "persistence-off": for_each_gpu(_persistence_off),
    "reset-required": _reset_required,
    "reboot-required": _asks_for("reboot"),
    "drain-required": _asks_for("drain P2P"),
    "fabric-manager": _fabric_manager,
    "fabric-degraded": for_each_gpu(_fabric_degraded),
    "sram-errors": for_each_gpu(_sram),
    "memory-worn": for_each_gpu(_memory_worn),
    "inforom-corrupt": for_each_gpu(_inforom),
    "too-hot": _judged_by(_too_hot),
    "power-limited": for_each_gpu(_power_limited),
    "clocks-lowered": for_each_gpu(_clocks_lowered),
    "pcie-generation": _judged_by(_pcie_generation),
    "pcie-replays": _judged_by(_pcie_replays),
    "nvlink-errors": for_each_gpu(_nvlink_errors),
    "vgpu-unlicensed": for_each_gpu(_unlicensed),
    "mem-held-unseen": for_each_gpu(_mem_held_unseen),
    "gpus-differ": _gpus_differ,
}

"""The findings of the last check that can still be true.

A check judges a moment. Its findings are dropped after a reboot and with another driver. A finding
about a GPU is dropped where the GPU is gone, and while the GPU's sensors deny it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tarmac.monitor.idle import is_quiet
from tarmac.monitor.snapshot import Finding

if TYPE_CHECKING:
    from tarmac.files import Fields
    from tarmac.machine import LiveGpu

_GPU_LABEL = re.compile(r"GPU (\d+)$")
_PROBED_DEVICE = re.compile(r".* on (cuda:\d+)$")

# The limits of the check's rules of the same names (`tarmac.checks.rules.hardware`).
_POWER_TOLERANCE = 0.99
_HELD_SHARE = 0.05
_UNSEEN_BYTES = 2**30


def is_of_machine(report: Fields, *, boot_id: str | None, driver: str | None) -> bool:
    """Return whether a check was made since the boot and with the loaded driver.

    Args:
        report: Report of the check, from ``tarmac check --json`` or a run's ``check.json``.
        boot_id: ID of the current boot; None where it is unknown.
        driver: Version of the driver's kernel module; None where none is loaded.
    """
    inventory = report.inner("inventory")
    has_driver = inventory.inner("driver").text("module_version") == driver
    return has_driver and inventory.inner("host").text("boot_id") == boot_id


def findings_of_check(report: Fields, gpus: Sequence[LiveGpu]) -> tuple[Finding, ...]:
    """Return the failures and warnings of a check that can still be true.

    Args:
        report: Report of the check, from ``tarmac check --json`` or a run's ``check.json``.
        gpus: GPUs of this machine as they are now; empty where they cannot be read.
    """
    current = {gpu.uuid: gpu for gpu in gpus if gpu.parent_uuid is None}
    uuids = {gpu.index: gpu.uuid for gpu in current.values()}
    findings = []
    for finding in report.inners("findings"):
        code, level = finding.text("code"), finding.text("level")
        if code is None or level not in ("failure", "warning"):
            continue
        where = finding.values.get("where")
        places = [str(place) for place in where] if isinstance(where, list) else []
        kept = [place for place in places if _can_be_true(code, place, report, current)]
        if places and not kept:
            continue
        numbers = [int(label[1]) for label in map(_GPU_LABEL.match, kept) if label is not None]
        text = finding.text("title") or code
        evidence = finding.text("evidence")
        fix = finding.values.get("fix")
        findings.append(
            Finding(
                code=code,
                level=level,
                text=f"{text}: {evidence}" if evidence else text,
                command=str(fix[0]) if isinstance(fix, list) and fix else "",
                gpu_uuid=uuids.get(numbers[0]) if len(numbers) == 1 else None,
                at=report.moment("checked_at"),
                is_of_check=True,
            )
        )
    return tuple(findings)


def _can_be_true(code: str, place: str, report: Fields, current: Mapping[str, LiveGpu]) -> bool:
    """Return whether a finding can still be true at a place.

    Args:
        code: Code of the finding.
        place: Place as the check names it: ``GPU 0``, ``torch on cuda:0``, ``machine``.
        report: Report of the check.
        current: GPUs of this machine as they are now, by UUID.
    """
    checked = _checked_gpu(place, report)
    uuid = None if checked is None else checked.text("uuid")
    if checked is None or uuid is None or not current:
        return True
    if uuid not in current:
        # A GPU that fell off the bus may be gone for the driver as well.
        return code == "fell-off-bus"
    is_denied = _DENIALS.get(code)
    if is_denied is None or current[uuid].error is not None:
        return True
    return not is_denied(checked, current[uuid])


def _checked_gpu(place: str, report: Fields) -> Fields | None:
    """Return the GPU of a place as the check read it; None where the place is no GPU."""
    gpus = report.inner("inventory").inners("gpus")
    label, probed = _GPU_LABEL.match(place), _PROBED_DEVICE.match(place)
    if label is not None:
        return next((gpu for gpu in gpus if gpu.whole("index") == int(label[1])), None)
    uuids = set() if probed is None else {*_uuids_of(probed[1], report)}
    # The driver's UUIDs alone count: PyTorch has another form for a slice's.
    return next((gpu for gpu in gpus if uuids == {gpu.text("uuid")}), None)


def _uuids_of(device: str, report: Fields) -> Iterator[str]:
    """Yield the UUIDs that probes have for a device: ``cuda:0`` may be any of the driver's GPUs."""
    for probe in report.inners("probes"):
        for entry in probe.inner("result").inners("devices"):
            uuid = entry.text("uuid")
            if uuid is not None and entry.text("name") == device:
                yield uuid


def _has_lost_its_errors(checked: Fields, gpu: LiveGpu) -> bool:
    # A reset clears the counter, and carries out pending replacements of rows.
    has_counted = bool(checked.whole("uncorrected_errors"))
    return has_counted and gpu.uncorrected_errors == 0 and not checked.values.get("remap_failed")


def _has_lost_its_processes(checked: Fields, gpu: LiveGpu) -> bool:
    pids = {process.whole("pid") for process in checked.inners("processes")}
    return not any({row.pid, row.driver_pid} & pids for row in gpu.processes)


def _has_little_unseen(_: Fields, gpu: LiveGpu) -> bool:
    held = [row.memory_bytes for row in gpu.processes]
    if gpu.memory_used_bytes is None or gpu.memory_total_bytes is None or None in held:
        return False
    unseen = gpu.memory_used_bytes - sum(size or 0 for size in held)
    return unseen < max(_UNSEEN_BYTES, _HELD_SHARE * gpu.memory_total_bytes)


def _computes_without(*reasons: str) -> Callable[[Fields, LiveGpu], bool]:
    # An idle GPU does not show what slows it down.
    return lambda _, gpu: is_quiet(gpu) is False and not {*reasons} & {*gpu.throttle_reasons}


def _computes_below_its_limits(checked: Fields, gpu: LiveGpu) -> bool:
    limits = checked.inner("temperature_limits_c")
    readings = {"operating": gpu.temperature_c, "memory": gpu.memory_temperature_c}
    pairs = [(celsius, limits.number(name)) for name, celsius in readings.items()]
    known = [(celsius, limit) for celsius, limit in pairs if celsius is not None and limit]
    return is_quiet(gpu) is False and bool(known) and all(c <= limit for c, limit in known)


def _has_its_power(checked: Fields, gpu: LiveGpu) -> bool:
    default = checked.number("default_power_watts")
    return bool(default) and (gpu.power_limit_watts or 0.0) >= _POWER_TOLERANCE * (default or 0.0)


# By code of the finding: whether a GPU's sensors deny it. The arguments are the GPU as the check
# read it, and the GPU as it is now.
_DENIALS: Mapping[str, Callable[[Fields, LiveGpu], bool]] = {
    "ecc": _has_lost_its_errors,
    "exclusive-mode": _has_lost_its_processes,
    # Only a GPU that answers is asked.
    "fell-off-bus": lambda *_: True,
    "mem-held": _has_lost_its_processes,
    "mem-held-unseen": _has_little_unseen,
    "pcie-generation": lambda _, gpu: (
        gpu.pcie_generation is not None and gpu.pcie_generation == gpu.max_pcie_generation
    ),
    "pcie-narrow": lambda _, gpu: (
        gpu.pcie_width is not None and gpu.pcie_width == gpu.max_pcie_width
    ),
    "power-limited": _has_its_power,
    "throttle-hardware": _computes_without("hw_power_brake", "hw_slowdown"),
    "throttle-thermal": _computes_without("sw_thermal", "hw_thermal"),
    "too-hot": _computes_below_its_limits,
}

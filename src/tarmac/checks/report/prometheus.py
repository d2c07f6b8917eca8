"""A report in the Prometheus text format, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tarmac.checks.report.rates import PRODUCTS, rates_of

if TYPE_CHECKING:
    from tarmac.checks.report.model import Report
    from tarmac.machine import Gpu

_LEVELS = ("failure", "warning", "note")


class _Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


# All metrics, in output order: kind and help.
_METRICS = {
    "tarmac_check_ok": ("gauge", "1 where all holds, else 0."),
    "tarmac_check_exit_code": ("gauge", "0 all holds, 1 something failed, 3 could not look."),
    "tarmac_check_timestamp_seconds": ("gauge", "When the check was made, since 1970."),
    "tarmac_check_duration_seconds": ("gauge", "How long the check took."),
    "tarmac_check_findings": ("gauge", "Findings of a level; skipped ones are none."),
    "tarmac_check_finding_info": ("gauge", "1 for each finding and place."),
    "tarmac_check_requirement_met": ("gauge", "1 where it holds, 0 where not, else not a number."),
    "tarmac_check_unseen": ("gauge", "1 for what gave no answer."),
    "tarmac_framework_ok": ("gauge", "1 where a framework computes right, else 0."),
    "tarmac_framework_flops_per_second": ("gauge", "Rate of matrix products."),
    "tarmac_framework_copy_bytes_per_second": ("gauge", "Rate of copies and of all-reduces."),
    "tarmac_driver_info": ("gauge", "1; NVIDIA's driver, and the newest CUDA that it runs."),
    "tarmac_gpu_info": ("gauge", "1 for each GPU."),
    "tarmac_gpu_answers": ("gauge", "1 where the driver can describe the GPU, else 0."),
    "tarmac_gpu_memory_bytes": ("gauge", "Memory in all."),
    "tarmac_gpu_memory_used_bytes": ("gauge", "Memory in use."),
    "tarmac_gpu_temperature_celsius": ("gauge", "Of the chip."),
    "tarmac_gpu_power_watts": ("gauge", "Drawn now."),
    "tarmac_gpu_power_limit_watts": ("gauge", "Allowed."),
    "tarmac_gpu_sm_clock_hertz": ("gauge", "Clock of the multiprocessors now."),
    "tarmac_gpu_memory_clock_hertz": ("gauge", "Clock of the memory now."),
    "tarmac_gpu_utilization_ratio": ("gauge", "Share of time with a kernel running."),
    "tarmac_gpu_pcie_generation": ("gauge", "Generation of the PCIe link now."),
    "tarmac_gpu_pcie_lanes": ("gauge", "Width of the PCIe link now."),
    "tarmac_gpu_nvlinks_up": ("gauge", "NVLinks that are up."),
    "tarmac_gpu_nvlinks": ("gauge", "NVLinks that there are."),
    "tarmac_gpu_ecc_errors_total": ("counter", "ECC errors since the driver was loaded."),
    "tarmac_gpu_retired_pages": ("gauge", "Pages or rows taken out of use in its life."),
}


def render_prometheus(report: Report) -> str:
    """Return the metrics, each with its help and type; names end with their base unit."""
    by_name: dict[str, list[_Sample]] = {name: [] for name in _METRICS}
    # The collector refuses a whole file that has a metric's labels twice.
    seen = set()
    for sample in _samples(report):
        key = (sample.name, *sample.labels.items())
        if key not in seen:
            seen.add(key)
            by_name[sample.name].append(sample)
    lines = []
    for name, samples in by_name.items():
        if samples:
            kind, help_text = _METRICS[name]
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            lines += map(_line, samples)
    return "\n".join(lines) + "\n"


def _samples(report: Report) -> Iterator[_Sample]:
    checked_at = datetime.fromisoformat(report.checked_at).timestamp()
    yield _Sample("tarmac_check_ok", {}, report.ok)
    yield _Sample("tarmac_check_exit_code", {}, report.exit_code)
    yield _Sample("tarmac_check_timestamp_seconds", {}, checked_at)
    yield _Sample("tarmac_check_duration_seconds", {}, report.seconds)
    for level in _LEVELS:
        count = sum(finding.level == level for finding in report.findings)
        yield _Sample("tarmac_check_findings", {"level": level}, count)
    for finding in report.findings:
        for place in finding.where:
            labels = {"code": finding.code, "level": finding.level, "where": place}
            yield _Sample("tarmac_check_finding_info", labels, 1)
    for requirement in report.requirements:
        met = float("nan") if requirement.met is None else requirement.met
        labels = {"requirement": requirement.text, "source": requirement.source}
        yield _Sample("tarmac_check_requirement_met", labels, met)
    for unseen in report.unseen:
        yield _Sample("tarmac_check_unseen", {"where": unseen.where}, 1)
    for verdict in report.frameworks:
        works = verdict.answer in ("ok", "cpu only", "warning")
        yield _Sample("tarmac_framework_ok", {"framework": verdict.name}, works)
    for rate in rates_of(report.probes):
        where = {"framework": rate.framework, "device": rate.device}
        if rate.kind in PRODUCTS:
            labels = {**where, "precision": rate.kind}
            yield _Sample("tarmac_framework_flops_per_second", labels, rate.per_second)
        else:
            labels = {**where, "path": rate.kind}
            yield _Sample("tarmac_framework_copy_bytes_per_second", labels, rate.per_second)
    driver = report.inventory.driver
    if driver.version is not None:
        labels = {"version": driver.version, "cuda": driver.cuda or ""}
        yield _Sample("tarmac_driver_info", labels, 1)
    for gpu in report.inventory.gpus:
        yield from _of_gpu(gpu)


def _of_gpu(gpu: Gpu) -> Iterator[_Sample]:
    labels = {"gpu": str(gpu.index)}
    names = {"uuid": gpu.uuid or "", "name": gpu.name or "", "address": gpu.address or ""}
    yield _Sample("tarmac_gpu_info", {**labels, **names}, 1)
    yield _Sample("tarmac_gpu_answers", labels, gpu.error is None)
    known: Iterable[tuple[str, float | None, float]] = (
        ("memory_bytes", gpu.memory_bytes, 1),
        ("memory_used_bytes", gpu.used_bytes, 1),
        ("temperature_celsius", gpu.temperature_c, 1),
        ("power_watts", gpu.power_watts.get("now"), 1),
        ("power_limit_watts", gpu.power_watts.get("limit"), 1),
        ("sm_clock_hertz", gpu.sm_clock_mhz.get("now"), 1e6),
        ("memory_clock_hertz", gpu.memory_clock_mhz.get("now"), 1e6),
        ("utilization_ratio", gpu.utilization, 0.01),
        ("pcie_generation", gpu.pcie.get("generation"), 1),
        ("pcie_lanes", gpu.pcie.get("width"), 1),
        ("nvlinks_up", sum(gpu.nvlinks) if gpu.nvlinks else None, 1),
        ("nvlinks", len(gpu.nvlinks) or None, 1),
        ("retired_pages", gpu.retired_pages, 1),
    )
    for name, value, scale in known:
        if value is not None:
            yield _Sample(f"tarmac_gpu_{name}", labels, value * scale)
    errors = (("corrected", gpu.corrected_errors), ("uncorrected", gpu.uncorrected_errors))
    for kind, count in errors:
        if count is not None:
            yield _Sample("tarmac_gpu_ecc_errors_total", {**labels, "type": kind}, count)


def _line(sample: _Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(text)}"' for name, text in sample.labels.items())
    shown = "NaN" if sample.value != sample.value else f"{float(sample.value):.15g}"
    return f"{sample.name}{{{labels}}} {shown}" if labels else f"{sample.name} {shown}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

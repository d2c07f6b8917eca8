"""A snapshot as families of metrics for Prometheus; docs/metrics.md lists them.

Names end in their unit, and unknown values are absent. Runs have a series only while they are at
work, and trials of a search have none, so that the number of series stays small.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.snapshot import Finding, HostSnapshot, Snapshot, Work

# Maximum number of runs and tasks with series; holders of GPUs come first. `tarmac_runs` counts
# all.
MAX_RUNS = 200

_XID = re.compile(r"\bXid (\d+)\b")

# Name without its unit, unit, description, field of `LiveGpu`, factor.
_OF_GPU = (
    ("utilization", "ratio", "Share of time in which a kernel ran.", "utilization_ratio", 1),
    (
        "memory_utilization",
        "ratio",
        "Share of time in which memory was read or written.",
        "memory_utilization_ratio",
        1,
    ),
    ("tensor", "ratio", "Share of time in which tensor cores worked.", "tensor_ratio", 1),
    ("memory_used", "bytes", "Memory in use.", "memory_used_bytes", 1),
    ("memory_size", "bytes", "Memory in all.", "memory_total_bytes", 1),
    ("power", "watts", "Power drawn.", "power_watts", 1),
    ("power_limit", "watts", "Power that may be drawn.", "power_limit_watts", 1),
    ("temperature", "celsius", "Temperature of the chip.", "temperature_c", 1),
    ("memory_temperature", "celsius", "Temperature of the memory.", "memory_temperature_c", 1),
    ("fan", "ratio", "Speed of the fan, of its highest.", "fan_ratio", 1),
    ("sm_clock", "hertz", "Clock of the multiprocessors.", "sm_clock_mhz", 1_000_000),
    ("sm_clock_max", "hertz", "The highest of those clocks.", "max_sm_clock_mhz", 1_000_000),
    ("memory_clock", "hertz", "Clock of the memory.", "memory_clock_mhz", 1_000_000),
    ("pcie_generation", "", "Generation of the link now.", "pcie_generation", 1),
    ("pcie_width", "", "Lanes of the link now.", "pcie_width", 1),
    ("row_remaps", "", "Memory rows replaced in its life.", "row_remaps", 1),
)
_COUNTED_OF_GPU = (
    ("energy", "joules", "Energy since the driver was loaded.", "energy_joules"),
    ("corrected_errors", "", "Memory errors that were corrected.", "corrected_errors"),
    ("uncorrected_errors", "", "Memory errors that were not corrected.", "uncorrected_errors"),
)
_OF_HOST = (
    ("cpus", "", "Cores that may be used.", "cpu_count"),
    ("cpu", "ratio", "Share of those in use.", "cpu_ratio"),
    ("cpu_throttled", "ratio", "Share of periods in which the quota ran out.", "throttled_ratio"),
    ("load1", "", "Processes that run or wait, over a minute.", "load_1m"),
    ("memory_used", "bytes", "Memory in use, of what may be used.", "memory_used_bytes"),
    ("memory_size", "bytes", "Memory that may be used.", "memory_total_bytes"),
)
_OF_RUN = (
    ("epoch", "", "Epochs done.", "epoch"),
    ("epochs", "", "Epochs in all.", "epochs"),
    ("loss", "", "Loss of the last epoch.", "loss"),
    ("samples_per_second", "", "Samples trained a second.", "samples_per_s"),
    ("eta", "seconds", "Time that is left.", "eta_s"),
    ("idle", "seconds", "For how long it holds GPUs that do nothing.", "idle_s"),
    ("quiet", "seconds", "Since it last wrote anything.", "quiet_s"),
    ("checkpoint_age", "seconds", "Since its newest checkpoint.", "checkpoint_age_s"),
    ("retries", "", "Attempts or sessions before this one.", "retries"),
    ("parts_done", "", "Tasks or trials that have ended.", "done"),
    ("parts", "", "Tasks or trials in all.", "total"),
)
_GPU_LABELS = ("host", "gpu", "uuid")
_RUN_LABELS = ("host", "run", "task", "study")


class XidCounts:
    """Counts of the driver's errors by GPU and number; a repeated finding counts once.

    Attributes:
        last: Number of each GPU's last error, by host and UUID.
    """

    def __init__(self) -> None:
        self.last: dict[tuple[str, str], str] = {}
        self._seen: set[tuple[object, ...]] = set()
        self._counts: dict[tuple[str, str, str], int] = {}

    def take(self, snapshot: Snapshot) -> Mapping[tuple[str, str, str], int]:
        """Count new errors; return the counts by host, UUID and number."""
        for host in snapshot.hosts:
            for finding in host.findings:
                number = _xid_of(finding)
                identity = (host.host.name, finding.gpu_uuid, finding.at, finding.text)
                if number is not None and identity not in self._seen:
                    self._seen.add(identity)
                    key = (host.host.name, finding.gpu_uuid or "", number)
                    self._counts[key] = self._counts.get(key, 0) + 1
                    self.last[key[:2]] = number
        return self._counts


def families_of(snapshot: Snapshot, xids: Mapping[tuple[str, str, str], int]) -> Iterator[Metric]:
    """Yield the metric families of a snapshot.

    Args:
        snapshot: Snapshot to export. A host that does not answer has ``tarmac_host_up`` 0 and
            nothing else.
        xids: Counts of errors from `XidCounts.take`.
    """
    hosts = [host for host in snapshot.hosts if not host.problem]
    up = GaugeMetricFamily("tarmac_host_up", "Whether the host answers.", labels=("host",))
    for name, answers in {h.host.name: not h.problem for h in snapshot.hosts}.items():
        up.add_metric((name,), float(answers))
    yield up
    at = GaugeMetricFamily(
        "tarmac_snapshot_timestamp", "When all of this was read.", unit="seconds"
    )
    at.add_metric((), snapshot.at.timestamp())
    yield at
    for name, unit, text, field in _OF_HOST:
        family = GaugeMetricFamily(f"tarmac_host_{name}", text, labels=("host",), unit=unit)
        for host in hosts:
            _add(family, (host.host.name,), getattr(host.host, field))
        yield family
    yield from _of_gpus(hosts)
    yield _xid_family(xids)
    yield from _of_findings(hosts)
    yield from _of_runs(hosts)


def _of_gpus(hosts: Iterable[HostSnapshot]) -> Iterator[Metric]:
    gpus = [(host, gpu, _labels(host, gpu)) for host in hosts for gpu in host.gpus]
    info = InfoMetricFamily("tarmac_gpu", "What each GPU is.", labels=_GPU_LABELS)
    up = GaugeMetricFamily("tarmac_gpu_up", "Whether the GPU can be read.", labels=_GPU_LABELS)
    states = GaugeMetricFamily(
        "tarmac_gpu_state",
        "1 for what it is: busy, free, held (idle and somebody's) or bad.",
        labels=(*_GPU_LABELS, "state"),
    )
    idle = GaugeMetricFamily(
        "tarmac_gpu_held_idle",
        "For how long it does nothing while somebody holds it.",
        labels=_GPU_LABELS,
        unit="seconds",
    )
    holders = GaugeMetricFamily(
        "tarmac_gpu_processes", "Processes that hold it.", labels=_GPU_LABELS
    )
    throttled = CounterMetricFamily(
        "tarmac_gpu_throttled",
        "Time with lowered clocks since the driver was loaded.",
        labels=(*_GPU_LABELS, "reason"),
        unit="seconds",
    )
    for host, gpu, labels in gpus:
        facts = {"name": gpu.name, "maker": gpu.maker, "parent": gpu.parent_uuid or ""}
        info.add_metric(labels, facts | {"pci_address": gpu.pci_address or ""})
        up.add_metric(labels, float(gpu.error is None))
        state = host.gpu_states.get(gpu.uuid)
        if state is not None:
            states.add_metric((*labels, state), 1)
        _add(idle, labels, host.gpu_idle_s.get(gpu.uuid))
        if gpu.error is None:
            holders.add_metric(labels, len(gpu.processes))
        for reason, seconds in gpu.throttled_s.items():
            throttled.add_metric((*labels, reason), seconds)
    yield from (info, up, states, idle, holders, throttled)
    for name, unit, text, field, factor in _OF_GPU:
        family = GaugeMetricFamily(f"tarmac_gpu_{name}", text, labels=_GPU_LABELS, unit=unit)
        for _, gpu, labels in gpus:
            value = getattr(gpu, field)
            _add(family, labels, None if value is None else value * factor)
        yield family
    for name, unit, text, field in _COUNTED_OF_GPU:
        counter = CounterMetricFamily(f"tarmac_gpu_{name}", text, labels=_GPU_LABELS, unit=unit)
        for _, gpu, labels in gpus:
            _add(counter, labels, getattr(gpu, field))
        yield counter


def _of_findings(hosts: Iterable[HostSnapshot]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "tarmac_findings",
        "What is wrong, of the last check or seen since, by the code of docs/failures.md.",
        labels=("host", "code", "level"),
    )
    counts: dict[tuple[str, str, str], int] = {}
    for host in hosts:
        for finding in host.findings:
            key = (host.host.name, finding.code, finding.level)
            counts[key] = counts.get(key, 0) + 1
    for labels, count in counts.items():
        family.add_metric(labels, count)
    yield family


def _of_runs(hosts: Iterable[HostSnapshot]) -> Iterator[Metric]:
    shown: dict[tuple[str, ...], Work] = {}
    number = GaugeMetricFamily(
        "tarmac_runs", "Runs and tasks that are at work.", labels=("host", "kind")
    )
    for host in hosts:
        kinds = {work.id: work.kind for work in host.work}
        counts: dict[str, int] = {}
        for work in sorted(host.work, key=lambda work: not work.gpu_uuids):
            counts[work.kind] = counts.get(work.kind, 0) + 1
            if kinds.get(work.parent or "") != "search" and len(shown) < MAX_RUNS:
                shown.setdefault((host.host.name, *_names(work)), work)
        for kind, count in counts.items():
            number.add_metric((host.host.name, kind), count)
    yield number
    info = InfoMetricFamily("tarmac_run", "What each run is.", labels=_RUN_LABELS)
    states = GaugeMetricFamily(
        "tarmac_run_state",
        "1 for what it does: busy, warming, idle, hung or waiting.",
        labels=(*_RUN_LABELS, "state"),
    )
    metric = GaugeMetricFamily(
        "tarmac_run_metric", "Its last score, by name.", labels=(*_RUN_LABELS, "metric")
    )
    waits = GaugeMetricFamily(
        "tarmac_run_wait",
        "Share of its time that it waits, by what for.",
        labels=(*_RUN_LABELS, "for"),
        unit="ratio",
    )
    energy = CounterMetricFamily(
        "tarmac_run_energy", "Energy since it began.", labels=_RUN_LABELS, unit="joules"
    )
    uses = GaugeMetricFamily(
        "tarmac_run_gpu", "1 for each GPU that it uses.", labels=(*_RUN_LABELS, "uuid")
    )
    for labels, work in shown.items():
        facts = {"kind": work.kind, "status": work.status}
        info.add_metric(labels, facts | {"workload": work.workload or "", "user": work.user or ""})
        states.add_metric((*labels, work.state), 1)
        if work.metric_name is not None:
            _add(metric, (*labels, work.metric_name), work.metric)
        for cause, share in work.waits.items():
            waits.add_metric((*labels, cause), share)
        _add(energy, labels, work.energy_joules)
        for uuid in dict.fromkeys(work.gpu_uuids):
            uses.add_metric((*labels, uuid), 1)
    yield from (info, states, metric, waits, energy, uses)
    for name, unit, text, field in _OF_RUN:
        family = GaugeMetricFamily(f"tarmac_run_{name}", text, labels=_RUN_LABELS, unit=unit)
        for labels, work in shown.items():
            _add(family, labels, getattr(work, field))
        yield family


def _names(work: Work) -> tuple[str, str, str]:
    """Return the labels run, task and study of a work; labels that do not apply are empty."""
    if work.kind == "search":
        return "", "", work.id
    if work.parent is None:
        return work.id, "", ""
    return work.parent, work.id.removeprefix(f"{work.parent}/"), ""


def _xid_family(xids: Mapping[tuple[str, str, str], int]) -> Metric:
    family = CounterMetricFamily(
        "tarmac_gpu_xid_errors",
        "Errors that the driver has logged since this watch began, by number.",
        labels=("host", "uuid", "xid"),
    )
    for labels, count in xids.items():
        family.add_metric(labels, count)
    return family


def _xid_of(finding: Finding) -> str | None:
    # A check's finding may name an Xid from before the monitor started.
    match = _XID.search(finding.text) if finding.code == "xid" else None
    return match[1] if match else None


def _labels(host: HostSnapshot, gpu: LiveGpu) -> tuple[str, str, str]:
    return host.host.name, str(gpu.index), gpu.uuid


def _add(family: Metric, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        family.add_metric(labels, value)  # type: ignore[attr-defined]

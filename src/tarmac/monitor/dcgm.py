"""GPU metrics with the names of NVIDIA's dcgm-exporter, for dashboards made for it.

Names, units and labels are those of dcgm-exporter's default set, ``default-counters.csv``. The
metrics have no type, because OpenMetrics requires counters to end in ``_total``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import Metric, UnknownMetricFamily

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.snapshot import Snapshot

_MIB = 2**20
_LABELS = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname")


def _free(gpu: LiveGpu) -> float | None:
    if gpu.memory_total_bytes is None or gpu.memory_used_bytes is None:
        return None
    return gpu.memory_total_bytes - gpu.memory_used_bytes


_FIELDS: tuple[tuple[str, str, Callable[[LiveGpu], float | None], float], ...] = (
    ("SM_CLOCK", "SM clock frequency (in MHz).", lambda gpu: gpu.sm_clock_mhz, 1),
    ("MEM_CLOCK", "Memory clock frequency (in MHz).", lambda gpu: gpu.memory_clock_mhz, 1),
    ("GPU_TEMP", "GPU temperature (in C).", lambda gpu: gpu.temperature_c, 1),
    ("MEMORY_TEMP", "Memory temperature (in C).", lambda gpu: gpu.memory_temperature_c, 1),
    ("POWER_USAGE", "Power draw (in W).", lambda gpu: gpu.power_watts, 1),
    (
        "TOTAL_ENERGY_CONSUMPTION",
        "Total energy consumption since boot (in mJ).",
        lambda gpu: gpu.energy_joules,
        1000,
    ),
    ("GPU_UTIL", "GPU utilization (in %).", lambda gpu: gpu.utilization_ratio, 100),
    ("MEM_COPY_UTIL", "Memory utilization (in %).", lambda gpu: gpu.memory_utilization_ratio, 100),
    ("FB_FREE", "Frame buffer memory free (in MiB).", _free, 1 / _MIB),
    ("FB_USED", "Frame buffer memory used (in MiB).", lambda gpu: gpu.memory_used_bytes, 1 / _MIB),
)


def dcgm_families(snapshot: Snapshot, last_xids: Mapping[tuple[str, str], str]) -> Iterator[Metric]:
    """Yield the metric families of a snapshot's GPUs, without slices, whose metrics differ.

    Args:
        snapshot: Snapshot whose NVIDIA GPUs to export. Hosts with a problem are left out.
        last_xids: Number of each GPU's last Xid error, by host and UUID.
    """
    gpus = [
        (host.host.name, gpu)
        for host in snapshot.hosts
        if not host.problem
        for gpu in host.gpus
        if gpu.parent_uuid is None and gpu.maker == "nvidia"
    ]
    for name, text, value_of, factor in _FIELDS:
        family = UnknownMetricFamily(f"DCGM_FI_DEV_{name}", text, labels=_LABELS)
        for host, gpu in gpus:
            value = value_of(gpu)
            if value is not None:
                family.add_metric(_labels(host, gpu), value * factor)
        yield family
    tensor = UnknownMetricFamily(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "Ratio of cycles the tensor (HMMA) pipe is active.",
        labels=_LABELS,
    )
    xids = UnknownMetricFamily(
        "DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", labels=_LABELS
    )
    for host, gpu in gpus:
        if gpu.tensor_ratio is not None:
            tensor.add_metric(_labels(host, gpu), gpu.tensor_ratio)
        xids.add_metric(_labels(host, gpu), float(last_xids.get((host, gpu.uuid), "0")))
    yield from (tensor, xids)


def _labels(host: str, gpu: LiveGpu) -> tuple[str, ...]:
    return (
        str(gpu.index),
        gpu.uuid,
        # The exporter writes the domain with eight digits.
        "" if gpu.pci_address is None else gpu.pci_address.rjust(16, "0").upper(),
        f"nvidia{gpu.index}",
        gpu.name,
        host,
    )

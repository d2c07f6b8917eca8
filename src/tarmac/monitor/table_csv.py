"""Snapshots as CSV, a line per GPU, for spreadsheets and shell loops.

Example:
    >>> print(csv_header() + csv_rows(snapshot), end="")
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.machine import LiveGpu
    from tarmac.monitor.snapshot import HostSnapshot, Snapshot

# Fields of `LiveGpu`, named as in the JSON.
_OF_GPU = (
    *("index", "uuid", "name", "parent_uuid", "pci_address"),
    *("utilization_ratio", "memory_utilization_ratio", "tensor_ratio"),
    *("memory_used_bytes", "memory_total_bytes", "power_watts", "power_limit_watts"),
    *("temperature_c", "sm_clock_mhz", "max_sm_clock_mhz", "pcie_generation", "pcie_width"),
    *("energy_joules", "corrected_errors", "uncorrected_errors", "row_remaps", "error"),
)
_OF_HOST = ("cpu_ratio", "memory_used_bytes", "memory_total_bytes")


def csv_header() -> str:
    """Return the header line, with its line break."""
    return _line(
        ["at", "host", *_OF_GPU, "state", "idle_s", "throttle_reasons", "work", "users"]
        + [f"host_{name}" for name in _OF_HOST]
    )


def csv_rows(snapshot: Snapshot) -> str:
    """Return a line for each GPU; a host without one has a line with empty cells.

    Items of lists are separated by ``;``. An empty cell stands for an unknown value.
    """
    return "".join(
        _line(_cells(host, gpu)) for host in snapshot.hosts for gpu in (host.gpus or (None,))
    )


def _cells(host: HostSnapshot, gpu: LiveGpu | None) -> Iterator[object]:
    yield host.at.isoformat()
    yield host.host.name
    for name in _OF_GPU:
        yield None if gpu is None else getattr(gpu, name)
    if gpu is None:
        yield from (None,) * 5
    else:
        yield host.gpu_states.get(gpu.uuid)
        yield host.gpu_idle_s.get(gpu.uuid)
        yield ";".join(gpu.throttle_reasons)
        yield ";".join(work.id for work in host.work if gpu.uuid in work.gpu_uuids)
        users = {row.user for row in host.processes if row.gpu_uuid == gpu.uuid and row.user}
        yield ";".join(sorted(users))
    for name in _OF_HOST:
        yield getattr(host.host, name)


def _line(cells: object) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)  # type: ignore[arg-type]
    return line.getvalue()

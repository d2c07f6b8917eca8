"""Watching: what GPUs do and for whom, at this moment; `tarmac top`."""

from tarmac.monitor.snapshot import (
    SCHEMA_VERSION,
    Finding,
    HostSnapshot,
    ProcessRow,
    Snapshot,
    Work,
)

__all__ = [
    "SCHEMA_VERSION",
    "Finding",
    "HostSnapshot",
    "ProcessRow",
    "Snapshot",
    "Work",
]

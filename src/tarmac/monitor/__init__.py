"""Watching: what GPUs do and for whom, at this moment; `tarmac top`."""

from tarmac.monitor.feed import Feed, LocalFeed
from tarmac.monitor.look import Watcher
from tarmac.monitor.options import WatchOptions
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
    "Feed",
    "Finding",
    "HostSnapshot",
    "LocalFeed",
    "ProcessRow",
    "Snapshot",
    "WatchOptions",
    "Watcher",
    "Work",
]

"""Watching: what GPUs do and for whom, at this moment; `tarmac top`."""

from tarmac.monitor.once import render_once
from tarmac.monitor.screen import ScreenOptions, run_screen, serve_in_browser
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
    "ScreenOptions",
    "Snapshot",
    "Work",
    "render_once",
    "run_screen",
    "serve_in_browser",
]

"""Watching: what GPUs do and for whom, at this moment; `tarmac top`.

A `Feed` gives one `Snapshot` after another, of this machine, of several, or from a recording. All
outlets take those: the screen, the plain table, JSON, CSV, metrics, alerts.

Example::

    feed = LocalFeed(WatchOptions())
    print(render_once(feed.next()))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.monitor.alerts import Alerts
    from tarmac.monitor.events import EVENTS, idle_ones
    from tarmac.monitor.feed import Feed, LocalFeed
    from tarmac.monitor.hosts import HostsFeed
    from tarmac.monitor.job_map import JobMap
    from tarmac.monitor.look import Watcher
    from tarmac.monitor.once import render_once
    from tarmac.monitor.openmetrics import MetricsAddress, serve_metrics
    from tarmac.monitor.options import WatchOptions
    from tarmac.monitor.plain import RecordingError, from_json, render_schema, to_json, to_line
    from tarmac.monitor.recording import Recorder, ReplayFeed
    from tarmac.monitor.screen import (
        ScreenOptions,
        can_show_screen,
        run_screen,
        serve_in_browser,
    )
    from tarmac.monitor.snapshot import (
        SCHEMA_VERSION,
        Finding,
        HostSnapshot,
        ProcessRow,
        Snapshot,
        Work,
    )
    from tarmac.monitor.table_csv import csv_header, csv_rows
    from tarmac.monitor.taps import Tap, TappedFeed
    from tarmac.monitor.whereabouts import ray_hosts, slurm_hosts

__all__ = [
    "EVENTS",
    "SCHEMA_VERSION",
    "Alerts",
    "Feed",
    "Finding",
    "HostSnapshot",
    "HostsFeed",
    "JobMap",
    "LocalFeed",
    "MetricsAddress",
    "ProcessRow",
    "Recorder",
    "RecordingError",
    "ReplayFeed",
    "ScreenOptions",
    "Snapshot",
    "Tap",
    "TappedFeed",
    "WatchOptions",
    "Watcher",
    "Work",
    "can_show_screen",
    "csv_header",
    "csv_rows",
    "from_json",
    "idle_ones",
    "ray_hosts",
    "render_once",
    "render_schema",
    "run_screen",
    "serve_in_browser",
    "serve_metrics",
    "slurm_hosts",
    "to_json",
    "to_line",
]

# Where a name is at home.
_MODULES = {
    "EVENTS": "events",
    "SCHEMA_VERSION": "snapshot",
    "Alerts": "alerts",
    "Feed": "feed",
    "Finding": "snapshot",
    "HostSnapshot": "snapshot",
    "HostsFeed": "hosts",
    "JobMap": "job_map",
    "LocalFeed": "feed",
    "MetricsAddress": "openmetrics",
    "ProcessRow": "snapshot",
    "Recorder": "recording",
    "RecordingError": "plain",
    "ReplayFeed": "recording",
    "ScreenOptions": "screen",
    "Snapshot": "snapshot",
    "Tap": "taps",
    "TappedFeed": "taps",
    "WatchOptions": "options",
    "Watcher": "look",
    "Work": "snapshot",
    "can_show_screen": "screen",
    "csv_header": "table_csv",
    "csv_rows": "table_csv",
    "from_json": "plain",
    "idle_ones": "events",
    "ray_hosts": "whereabouts",
    "render_once": "once",
    "render_schema": "plain",
    "run_screen": "screen",
    "serve_in_browser": "screen",
    "serve_metrics": "openmetrics",
    "slurm_hosts": "whereabouts",
    "to_json": "plain",
    "to_line": "plain",
}


def __getattr__(name: str) -> object:
    """Import a module when a name of it is first used: one picture needs few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

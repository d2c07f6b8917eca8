"""Live monitoring of GPUs and the work on them; `tarmac top`.

A `Feed` returns one `Snapshot` after another: of this machine, of several, or from a recording. All
outputs use snapshots: the screen, the plain table, JSON, CSV, metrics, alerts.

Example::

    feed = LocalFeed(WatchOptions())
    print(render_once(feed.next()))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.lazy import lazy_names

if TYPE_CHECKING:
    from tarmac.monitor.alerts import Alerts as Alerts
    from tarmac.monitor.collector import Watcher as Watcher
    from tarmac.monitor.events import EVENTS as EVENTS
    from tarmac.monitor.events import idle_ones as idle_ones
    from tarmac.monitor.feed import Feed as Feed
    from tarmac.monitor.feed import LocalFeed as LocalFeed
    from tarmac.monitor.hosts import HostsFeed as HostsFeed
    from tarmac.monitor.job_map import JobMap as JobMap
    from tarmac.monitor.locations import ray_hosts as ray_hosts
    from tarmac.monitor.locations import slurm_hosts as slurm_hosts
    from tarmac.monitor.once import render_once as render_once
    from tarmac.monitor.openmetrics import MetricsAddress as MetricsAddress
    from tarmac.monitor.openmetrics import serve_metrics as serve_metrics
    from tarmac.monitor.options import WatchOptions as WatchOptions
    from tarmac.monitor.plain import RecordingError as RecordingError
    from tarmac.monitor.plain import from_json as from_json
    from tarmac.monitor.plain import render_schema as render_schema
    from tarmac.monitor.plain import to_json as to_json
    from tarmac.monitor.plain import to_line as to_line
    from tarmac.monitor.recording import Recorder as Recorder
    from tarmac.monitor.recording import ReplayFeed as ReplayFeed
    from tarmac.monitor.screen import ScreenOptions as ScreenOptions
    from tarmac.monitor.screen import can_show_screen as can_show_screen
    from tarmac.monitor.screen import run_screen as run_screen
    from tarmac.monitor.screen import serve_in_browser as serve_in_browser
    from tarmac.monitor.sinks import Tap as Tap
    from tarmac.monitor.sinks import TappedFeed as TappedFeed
    from tarmac.monitor.snapshot import SCHEMA_VERSION as SCHEMA_VERSION
    from tarmac.monitor.snapshot import Finding as Finding
    from tarmac.monitor.snapshot import HostSnapshot as HostSnapshot
    from tarmac.monitor.snapshot import ProcessRow as ProcessRow
    from tarmac.monitor.snapshot import Snapshot as Snapshot
    from tarmac.monitor.snapshot import Work as Work
    from tarmac.monitor.table_csv import csv_header as csv_header
    from tarmac.monitor.table_csv import csv_rows as csv_rows
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)

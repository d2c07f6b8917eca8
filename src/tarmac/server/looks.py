"""Snapshots of the GPUs, shared by all readers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tarmac.monitor import LocalFeed, Snapshot

# One snapshot serves all readers within this time, in seconds.
_FRESH_S = 1.0


class Looks:
    """Snapshots on request, at most one a second.

    Args:
        open_feed: Opens the source of the snapshots, at the first request.
    """

    def __init__(self, open_feed: Callable[[], LocalFeed]) -> None:
        self._open_feed = open_feed
        self._turn = threading.Lock()
        self._feed: LocalFeed | None = None
        self._latest: tuple[float, Snapshot] | None = None

    def look(self) -> Snapshot:
        """Return a snapshot of the last second, or a new one."""
        with self._turn:
            if self._latest is None or time.monotonic() - self._latest[0] > _FRESH_S:
                if self._feed is None:
                    self._feed = self._open_feed()
                self._latest = (time.monotonic(), self._feed.next())
            return self._latest[1]

    def close(self) -> None:
        """Close the source, unless a snapshot is under way."""
        if self._turn.acquire(blocking=False):
            try:
                if self._feed is not None:
                    self._feed.close()
            finally:
                self._turn.release()

"""Sources of snapshots: this machine, a recording or other hosts, with one interface."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from tarmac.monitor.collector import Watcher
from tarmac.monitor.snapshot import Snapshot

if TYPE_CHECKING:
    from tarmac.monitor.options import WatchOptions


class Feed(Protocol):
    """A source of snapshots."""

    def next(self) -> Snapshot:
        """Return the next snapshot, once it is due.

        Raises:
            StopIteration: The feed has ended, as a recording does.
        """
        ...

    def close(self) -> None:
        """Release all resources; further calls do nothing."""
        ...


class LocalFeed:
    """Snapshots of this machine, every `WatchOptions.interval_s` seconds.

    The first snapshot comes at once. A snapshot that took longer than the interval is followed by
    the next without a pause.

    Args:
        options: Filters and interval of the snapshots.
    """

    def __init__(self, options: WatchOptions) -> None:
        self._interval_s = options.interval_s
        self._watcher = Watcher(options)
        self._next_at: float | None = None

    def __enter__(self) -> LocalFeed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def next(self) -> Snapshot:
        """Return the next snapshot, once it is due."""
        now = time.monotonic()
        if self._next_at is not None and self._next_at > now:
            time.sleep(self._next_at - now)
            now = self._next_at
        self._next_at = now + self._interval_s
        host = self._watcher.look()
        return Snapshot(at=datetime.now(UTC), hosts=(host,))

    def close(self) -> None:
        """Close the readers of this machine."""
        self._watcher.close()

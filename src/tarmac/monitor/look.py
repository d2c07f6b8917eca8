"""One look at this machine after another: GPUs, processes and work, joined and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.monitor.options import WatchOptions
    from tarmac.monitor.snapshot import HostSnapshot

__all__ = ["Watcher"]


class Watcher:
    """Looks at this machine; it keeps the driver open and what it has read of files.

    Args:
        options: What to look at.
    """

    def __init__(self, options: WatchOptions) -> None:
        self._options = options

    def look(self) -> HostSnapshot:
        """Return this machine as it is now."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the driver; nothing happens where that was done before."""

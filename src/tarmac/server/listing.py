"""The current runs, by the names of their pages."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tarmac.run_kinds import index_of
from tarmac.runs import BrokenRun, RunSummary

_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True)
class Listing:
    """All runs at one moment, by name: the path relative to the output directory.

    Attributes:
        runs: Readable runs by name, the newest first.
        broken: Runs that cannot be read, by name.
    """

    runs: Mapping[str, RunSummary]
    broken: Mapping[str, BrokenRun]

    def path(self, name: str) -> Path | None:
        """Return a run's directory; None if no run has that name."""
        run = self.runs.get(name) or self.broken.get(name)
        return None if run is None else run.path


class RunLister:
    """A cached list of the runs, for any number of threads.

    Args:
        output: Directory of the runs.
        every_s: Minimum seconds between two scans of the directories, for all readers. Default 1.
    """

    def __init__(self, output: Path, *, every_s: float = _EVERY_S) -> None:
        self.output = output
        self._every_s = every_s
        self._index = index_of(output)
        self._turn = threading.Lock()
        self._latest: tuple[float, Listing] | None = None

    def list(self) -> Listing:
        """Return the runs as of now, or of at most ``every_s`` seconds ago."""
        with self._turn:
            if self._latest is None or time.monotonic() - self._latest[0] > self._every_s:
                runs, broken = self._index.summaries()
                listing = Listing(
                    runs={self._name(run.path): run for run in runs},
                    broken={self._name(run.path): run for run in broken},
                )
                self._latest = (time.monotonic(), listing)
            return self._latest[1]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.output).as_posix()

"""The interface for watchers of attempts that an engine runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tarmac.hkube.hosting import Watcher, Work
from tarmac.jobs import Cause


class EngineWatcher(Watcher, Protocol):
    """A watcher of tasks that an engine runs, called in the loop's thread."""

    def queued(self, work: Work, attempt: int, directory: Path, place: str) -> None:
        """Handle an attempt that is queued; `place` is the engine's name for it."""

    def began(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str
    ) -> None:
        """Handle an attempt that runs on a host."""

    def kept(self, work: Work, attempt: int, reason: str, *, is_at_work: bool) -> None:
        """Handle the reason why an attempt waits, in the queue or while running."""

    def requeued(self, work: Work, attempt: int, cause: Cause, reason: str) -> None:
        """Handle an attempt that ran and is queued again."""

    def restarting(
        self,
        work: Work,
        attempt: int,
        cause: Cause | None,
        reason: str,
        delay_s: float,
        *,
        goes_on: bool,
    ) -> None:
        """Handle an ended attempt that another one follows, as `tarmac.jobs.follow_up` decides."""

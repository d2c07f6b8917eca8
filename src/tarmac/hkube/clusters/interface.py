"""Who is told what an engine does with the attempts at tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tarmac.hkube.hosting import Watcher

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tarmac.hkube.hosting import Work
    from tarmac.jobs import Cause


class EngineWatcher(Watcher, Protocol):
    """Is told what happens to tasks that an engine has, in the loop's thread."""

    def queued(self, work: Work, attempt: int, directory: Path, place: str) -> None:
        """An attempt is in the engine's queue, whose name for it is its place."""

    def began(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str
    ) -> None:
        """An attempt is at work on a host."""

    def kept(self, work: Work, attempt: int, reason: str, *, is_at_work: bool) -> None:
        """What keeps an attempt waiting, in the queue or at its work."""

    def requeued(self, work: Work, attempt: int, cause: Cause, reason: str) -> None:
        """An attempt was at work, and is in the queue again."""

    def disturbed(
        self, work: Work, attempt: int, cause: Cause | None, reason: str, delay_s: float
    ) -> None:
        """Something befell an attempt, and another one follows that spends no retry."""

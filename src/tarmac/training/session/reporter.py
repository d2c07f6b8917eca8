"""What a training tells whoever watches it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tarmac.runs import Run
    from tarmac.training.engine.scoring import Score
    from tarmac.training.plan import Plan


class Reporter(Protocol):
    """Receives what happens, in the thread that trains; a slow one slows the training."""

    def downloading(self, done: int, total: int | None, file: str) -> None:
        """Bytes of a data file have come."""

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        """All is checked, and the first step is next."""

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        """A step is done; both count from 1. Calling ``score`` waits for the device."""

    def epoch_done(self, row: Mapping[str, float]) -> None:
        """An epoch is done; ``row`` is its line of ``metrics.jsonl``."""

    def restarting(self, reason: str) -> None:
        """A worker was lost; all start again from the newest checkpoint."""


class Silent:
    """Reports nothing: the default from Python."""

    def downloading(self, done: int, total: int | None, file: str) -> None:
        """Say nothing."""

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        """Say nothing."""

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        """Say nothing."""

    def epoch_done(self, row: Mapping[str, float]) -> None:
        """Say nothing."""

    def restarting(self, reason: str) -> None:
        """Say nothing."""

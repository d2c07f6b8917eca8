"""Reporters, which receive the progress of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tarmac.runs import Run
from tarmac.training.engine.scoring import Score
from tarmac.training.plan import Plan


class Reporter(Protocol):
    """A receiver of progress, called in the training thread; a slow one slows the training."""

    def downloading(self, done: int, total: int | None, file: str) -> None:
        """Report bytes of a data file that were downloaded."""

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        """Report that everything is checked, before the first step."""

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        """Report a step; both numbers count from 1. Calling ``score`` waits for the device."""

    def epoch_done(self, row: Mapping[str, float]) -> None:
        """Report an epoch; ``row`` is its line of ``metrics.jsonl``."""

    def restarting(self, reason: str) -> None:
        """Report that a worker was lost and all restart from the newest checkpoint."""


class Silent:
    """A reporter that reports nothing: the default from Python."""

    def downloading(self, done: int, total: int | None, file: str) -> None:
        """Report nothing."""

    def started(self, plan: Plan, run: Run, num_parameters: int) -> None:
        """Report nothing."""

    def stepped(self, epoch: int, step: int, score: Callable[[], Score]) -> None:
        """Report nothing."""

    def epoch_done(self, row: Mapping[str, float]) -> None:
        """Report nothing."""

    def restarting(self, reason: str) -> None:
        """Report nothing."""

"""The interface of reporters, which receive the progress of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from tarmac.studies.evaluation.interface import Progress

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from tarmac.studies.study.study import Study


class Reporter(Protocol):
    """A receiver of a search's events, called in the thread that searches."""

    def began(self, study: Study, where: str) -> None:
        """Handle the start of training; ``where`` describes how and where networks train."""

    def noted(self, text: str) -> None:
        """Handle a remark for the user."""

    def planned(self, generation: int, num_children: int, num_survivors: int) -> None:
        """Handle a newly planned generation."""

    def started(self, number: int, settings: Mapping[str, object]) -> None:
        """Handle the start of a network's training."""

    def epoch_done(self, progress: Progress) -> None:
        """Handle a finished epoch of a network."""

    def trial_done(self, study: Study, trial: FrozenTrial) -> None:
        """Handle a finished trial, in any state."""

    def generation_done(self, study: Study, generation: int) -> None:
        """Handle the end of a generation, whose trials are all finished."""

    def retraining(self, study: Study, epoch: int, metrics: Mapping[str, float]) -> None:
        """Handle an epoch of the winner's training on all data; epoch 0 marks its start."""

    def ended(self, study: Study) -> None:
        """Handle the end of the work in this session."""


class Silent:
    """A reporter that does nothing: the default in Python."""

    def began(self, study: Study, where: str) -> None:
        """Do nothing."""

    def noted(self, text: str) -> None:
        """Do nothing."""

    def planned(self, generation: int, num_children: int, num_survivors: int) -> None:
        """Do nothing."""

    def started(self, number: int, settings: Mapping[str, object]) -> None:
        """Do nothing."""

    def epoch_done(self, progress: Progress) -> None:
        """Do nothing."""

    def trial_done(self, study: Study, trial: FrozenTrial) -> None:
        """Do nothing."""

    def generation_done(self, study: Study, generation: int) -> None:
        """Do nothing."""

    def retraining(self, study: Study, epoch: int, metrics: Mapping[str, float]) -> None:
        """Do nothing."""

    def ended(self, study: Study) -> None:
        """Do nothing."""

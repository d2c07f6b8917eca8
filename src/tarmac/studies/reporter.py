"""Who receives the progress of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.trial import FrozenTrial

    from tarmac.studies.evaluation.interface import Progress
    from tarmac.studies.study.study import Study


class Reporter(Protocol):
    """Receives what happens, in the thread that searches."""

    def began(self, study: Study, where: str) -> None:
        """Checks are done, and training begins; ``where`` says how and on what networks train."""

    def noted(self, text: str) -> None:
        """A remark for the user."""

    def planned(self, generation: int, num_children: int, num_survivors: int) -> None:
        """A generation has been planned."""

    def started(self, number: int, settings: Mapping[str, object]) -> None:
        """A network is being trained."""

    def epoch_done(self, progress: Progress) -> None:
        """A network has trained for an epoch."""

    def trial_done(self, study: Study, trial: FrozenTrial) -> None:
        """A trial is finished, in whatever state."""

    def generation_done(self, study: Study, generation: int) -> None:
        """All of a generation's trials are finished."""

    def retraining(self, study: Study, epoch: int, metrics: Mapping[str, float]) -> None:
        """The winner is trained on all data; epoch 0 is before its first."""

    def ended(self, study: Study) -> None:
        """Nothing more is done in this session."""


class Silent:
    """Reports nothing: the default from Python."""

    def began(self, study: Study, where: str) -> None:
        """Say nothing."""

    def noted(self, text: str) -> None:
        """Say nothing."""

    def planned(self, generation: int, num_children: int, num_survivors: int) -> None:
        """Say nothing."""

    def started(self, number: int, settings: Mapping[str, object]) -> None:
        """Say nothing."""

    def epoch_done(self, progress: Progress) -> None:
        """Say nothing."""

    def trial_done(self, study: Study, trial: FrozenTrial) -> None:
        """Say nothing."""

    def generation_done(self, study: Study, generation: int) -> None:
        """Say nothing."""

    def retraining(self, study: Study, epoch: int, metrics: Mapping[str, float]) -> None:
        """Say nothing."""

    def ended(self, study: Study) -> None:
        """Say nothing."""

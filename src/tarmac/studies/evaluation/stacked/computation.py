"""The interface of all implementations that compute the steps of a stack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from tarmac.studies.evaluation.stacked.draws import EpochDraws
    from tarmac.studies.evaluation.stacked.masks import Masks


class Computation(Protocol):
    """The parameters of a stack, and their training steps."""

    @property
    def masks(self) -> Masks | None:
        """The masks that draw dropout from an epoch's coefficients; None if the steps draw it."""
        ...

    def start(self) -> None:
        """Set the networks' initial weights; call this once, before all else."""
        ...

    def train_epoch(self, epoch: int, draws: EpochDraws) -> torch.Tensor:
        """Run the steps of an epoch, numbered from 0.

        Returns:
            Each network's sum of losses and number of correct answers, float64 ``[2, networks]``.
        """
        ...

    def validate(self) -> torch.Tensor:
        """Return losses and accuracies on the validation samples, float64 ``[2, networks]``."""
        ...

    def keep(self, kept: Sequence[int]) -> None:
        """Drop all networks except ``kept``, whose masks are reduced already."""
        ...

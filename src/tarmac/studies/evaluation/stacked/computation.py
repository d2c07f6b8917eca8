"""What computes the steps of a stack: one interface, whatever they are computed by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from tarmac.studies.evaluation.stacked.draws import EpochDraws

__all__ = ["Computation"]


class Computation(Protocol):
    """Holds the parameters of a stack and trains them."""

    def train_epoch(self, epoch: int, draws: EpochDraws) -> torch.Tensor:
        """Do an epoch's steps, an epoch from 0.

        Returns:
            Each network's sum of losses and number of right answers, float64 ``[2, networks]``.
        """
        ...

    def validate(self) -> torch.Tensor:
        """Return losses and accuracies on the validation samples, float64 ``[2, networks]``."""
        ...

    def keep(self, kept: Sequence[int]) -> None:
        """Go on with some of the networks."""
        ...

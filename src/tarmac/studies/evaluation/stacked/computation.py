"""What computes the steps of a stack: one interface, whatever they are computed by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from tarmac.studies.evaluation.stacked.draws import EpochDraws
    from tarmac.studies.evaluation.stacked.masks import Masks


class Computation(Protocol):
    """Holds the parameters of a stack and trains them."""

    @property
    def masks(self) -> Masks | None:
        """What draws dropout with an epoch's coefficients; None where the steps draw it."""
        ...

    def start(self) -> None:
        """Set the networks' initial weights; once, before anything else."""
        ...

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
        """Go on with some of the networks, whose masks are kept already."""
        ...

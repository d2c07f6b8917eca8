"""The interface of what computes steps: several of them in one call, where that is faster."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch


@dataclasses.dataclass(frozen=True)
class Steps:
    """Consecutive steps of an epoch whose batches have the same sizes.

    Attributes:
        first: The number of the first one, counted from the start of the training.
        scale: Factor of each sample's loss: one over the size of the global batch.
        rates: The learning rate of each step.
        sizes: How many samples each micro-batch of a step has, by replica of this process; 0 for a
            replica without a part in a last batch that is smaller than the others.
        group_rates: The learning rates of the recipe's parameter groups, of each step.
    """

    first: int
    scale: float
    rates: tuple[float, ...]
    sizes: tuple[tuple[int, ...], ...]
    group_rates: tuple[tuple[float, ...], ...] = ()

    @property
    def count(self) -> int:
        """How many steps."""
        return len(self.rates)


class StepRunner(Protocol):
    """Computes steps from what the feeds hand over, up to the update of the weights.

    It changes weights, buffers, the optimizer's state, the replicas' totals and the generators in
    place, so that after any call they are what as many single steps would have left.

    Attributes:
        at_once: The most steps that one call computes.
        joins_samples: Whether a feed hands over the samples of one call together. Otherwise it does
            so micro-batch by micro-batch.
    """

    at_once: int
    joins_samples: bool

    def run(self, steps: Steps, batches: Sequence[Iterator[tuple[torch.Tensor, ...]]]) -> None:
        """Compute steps.

        Args:
            steps: Consecutive steps to compute, at most ``at_once``.
            batches: By replica of this process, what its feed hands over next. With
                ``joins_samples``, one tuple: the samples of all steps one after another, and those
                of a step's micro-batches one after another, as a resident feed does: int64 indices
                ``[count * sum(sizes)]`` on the device.
        """
        ...

    def warm_up(self, kinds: Sequence[Steps]) -> None:
        """Load, compile and record what `run` will need; all ranks call it with as many kinds.

        It may compute steps on any samples: whoever calls puts weights, buffers, optimizer state,
        totals and generators back, and calls `reload`.

        Args:
            kinds: Steps of every count and of all sizes that will come, rates and numbers aside.
        """
        ...

    def reload(self) -> None:
        """Take weights, buffers and the optimizer's state anew, which were changed from outside.

        Called after they were put back, loaded from a checkpoint or broadcast. What reads them
        where they lie has nothing to do.
        """
        ...

"""The interface of a step runner, which may compute several steps in one call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch


@dataclasses.dataclass(frozen=True)
class Steps:
    """Consecutive steps of an epoch whose batches have the same sizes.

    Attributes:
        first: Number of the first step, counted from the start of the training.
        scale: Factor of each sample's loss: one over the size of the global batch.
        rates: The learning rate of each step.
        sizes: Number of samples in each micro-batch of a step, by replica of this process; 0 for a
            replica without samples in a smaller last batch.
        group_rates: The learning rates of the recipe's parameter groups, for each step.
    """

    first: int
    scale: float
    rates: tuple[float, ...]
    sizes: tuple[tuple[int, ...], ...]
    group_rates: tuple[tuple[float, ...], ...] = ()

    @property
    def count(self) -> int:
        """Number of steps."""
        return len(self.rates)


class StepRunner(Protocol):
    """An interface that computes steps from the feeds' batches, up to the update of the weights.

    A step runner changes weights, buffers, the optimizer's state, the replicas' totals and the
    generators in place. After any call they equal the result of as many single steps.

    Attributes:
        at_once: Maximum number of steps that one call computes.
        joins_samples: Whether a feed yields the samples of one call together. Otherwise the feed
            yields one micro-batch at a time.
    """

    at_once: int
    joins_samples: bool

    def run(self, steps: Steps, batches: Sequence[Iterator[tuple[torch.Tensor, ...]]]) -> None:
        """Compute steps.

        Args:
            steps: Consecutive steps to compute, at most ``at_once``.
            batches: The feed's iterator for each replica of this process. With ``joins_samples``,
                the call takes one tuple, as a resident feed yields it: int64 indices
                ``[count * sum(sizes)]`` on the device. The samples are in the order of steps and,
                within a step, of micro-batches.
        """
        ...

    def warm_up(self, kinds: Sequence[Steps]) -> None:
        """Load, compile and record what `run` needs; all ranks call it with as many kinds.

        It may compute steps on any samples. The caller then restores weights, buffers, optimizer
        state, totals and generators, and calls `reload`.

        Args:
            kinds: Steps of every count and of all sizes that will occur; rates and numbers may
                differ later.
        """
        ...

    def reload(self) -> None:
        """Read weights, buffers and the optimizer's state again, after a change from outside.

        Called after they were restored, loaded from a checkpoint or broadcast. A step runner that
        reads them in place has nothing to do.
        """
        ...

"""An epoch as calls of a `StepRunner`: their steps, learning rates and samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from tarmac.training.engine.augmented_feed import AugmentedFeed
from tarmac.training.engine.chunks import (
    Chunk,
    cut_into_chunks,
    kinds_of_chunks,
    most_at_once,
    order_of_replica,
)
from tarmac.training.engine.replica import Replica
from tarmac.training.engine.step_runner import StepRunner, Steps
from tarmac.training.plan import Plan
from tarmac.training.shares import order_of


class EpochCalls:
    """A divider of epochs into calls, which also starts the replicas' feeds for their samples.

    Args:
        plan: Training plan, with the shares, the recipe and the seed.
        replicas: Replicas that this process trains.
        runner: Step runner whose ``at_once`` bounds the steps of a call.

    Attributes:
        at_once: Maximum number of steps in a call.
    """

    def __init__(self, plan: Plan, replicas: Sequence[Replica], runner: StepRunner) -> None:
        self._plan = plan
        self._replicas = replicas
        self._joins_samples = runner.joins_samples
        self.at_once = most_at_once(plan.shares, runner.at_once)
        self._factors = plan.workload.recipe.rate_factors(())
        self._drawn: tuple[int, torch.Tensor] | None = None

    def chunks(self, first_step: int, last_step: int | None = None) -> list[Chunk]:
        """Return the calls from a step to ``last_step``, or to the end of the epoch."""
        return cut_into_chunks(self._plan.shares, first_step, self.at_once, last_step)

    def kinds(self) -> list[Steps]:
        """Return steps of every kind that any epoch has."""
        return [self.steps(0, chunk) for chunk in kinds_of_chunks(self._plan.shares, self.at_once)]

    def see_losses(self, losses: Sequence[float]) -> None:
        """Set the losses of all completed epochs, which some schedules need."""
        self._factors = self._plan.workload.recipe.rate_factors(losses)

    def rates(self, epoch: int, step: int) -> tuple[float, ...]:
        """Return the learning rates of a step: the recipe's, then those of parameter groups."""
        recipe = self._plan.workload.recipe
        rates = recipe.learning_rates((epoch + step / self._plan.num_steps) / recipe.epochs)
        return tuple(rate * own for rate, own in zip(rates, self._factors, strict=True))

    def steps(self, epoch: int, chunk: Chunk) -> Steps:
        """Return the steps that a call computes."""
        shares = self._plan.shares
        rates = [self.rates(epoch, step) for step in range(chunk.first, chunk.stop)]
        return Steps(
            first=epoch * shares.num_steps + chunk.first,
            scale=1 / shares.global_size(chunk.first),
            rates=tuple(own for own, *_ in rates),
            group_rates=tuple(tuple(of_groups) for _, *of_groups in rates),
            sizes=tuple(
                tuple(shares.micro_batch_sizes(chunk.first, replica.rank))
                for replica in self._replicas
            ),
        )

    def batches(
        self, epoch: int, chunks: Sequence[Chunk]
    ) -> list[Iterator[tuple[torch.Tensor, ...]]]:
        """Return each replica's iterator of batches for consecutive chunks."""
        shares = self._plan.shares
        drawn, self._drawn = self._drawn, None
        order = drawn[1] if drawn is not None and drawn[0] == epoch else self._draw(epoch)
        for replica in self._replicas:
            if isinstance(replica.feed, AugmentedFeed):
                replica.feed.start_epoch(epoch)
            if replica.loader is not None:
                replica.loader.start_epoch(epoch)
        if self._joins_samples:
            return [
                replica.feed.batches(*order_of_replica(order, shares, chunks, replica.rank))
                for replica in self._replicas
            ]
        first_step = chunks[0].first if chunks else shares.num_steps
        last_step = chunks[-1].stop if chunks else shares.num_steps
        return [
            replica.feed.batches(order, shares.micro_batches(first_step, replica.rank, last_step))
            for replica in self._replicas
        ]

    def prepare(self, epoch: int) -> None:
        """Draw an epoch's order ahead, if there is such an epoch."""
        if epoch < self._plan.workload.recipe.epochs:
            self._drawn = (epoch, self._draw(epoch))

    def _draw(self, epoch: int) -> torch.Tensor:
        return order_of(self._plan.seed, epoch, self._plan.train_size)

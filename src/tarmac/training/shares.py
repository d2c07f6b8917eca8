"""The order of an epoch's samples, and their division among replicas and micro-batches."""

from __future__ import annotations

import dataclasses

import torch

from tarmac.workloads import Recipe

# Mixes the epoch into the seed of its order. Any odd number above plausible epoch counts works.
_EPOCH_STRIDE = 1_000_003

# PyTorch's generators take seeds below 2**64. MAX_SEED * _EPOCH_STRIDE leaves room for any epoch.
MAX_SEED = 2**44


def order_of(seed: int, epoch: int, num_samples: int) -> torch.Tensor:
    """Return an epoch's order of the samples, int64 ``[num_samples]``.

    The CPU draws the order, so the order is the same on every device and with every feed.

    Args:
        seed: Seed of the training, from 0 to `MAX_SEED`.
        epoch: Index of the epoch, from 0.
        num_samples: Number of training samples.
    """
    generator = torch.Generator().manual_seed(seed * _EPOCH_STRIDE + epoch)
    return torch.randperm(num_samples, generator=generator)


def cut(start: int, stop: int, num_parts: int) -> list[tuple[int, int]]:
    """Cut a range into parts whose sizes differ by at most one, larger parts first.

    Some parts are empty if there are more parts than numbers in the range.
    """
    size, num_larger = divmod(stop - start, num_parts)
    spans = []
    for part in range(num_parts):
        end = start + size + (part < num_larger)
        spans.append((start, end))
        start = end
    return spans


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shares:
    """The division of an epoch's samples among steps, replicas and micro-batches.

    A step takes the next ``batch_size`` samples of the epoch's order; the last step takes the rest.
    Each replica gets one contiguous slice of the batch and cuts that into micro-batches. So every
    sample is in exactly one micro-batch of an epoch, whatever the number of replicas.

    Attributes:
        num_samples: Number of samples in an epoch.
        batch_size: Samples per step, of all replicas together.
        num_replicas: Number of replicas that train together.
        accumulate: Micro-batches per step and replica.
        drop_last: Whether an incomplete last batch is dropped. An epoch's only batch is kept.
    """

    num_samples: int
    batch_size: int
    num_replicas: int
    accumulate: int
    drop_last: bool = False

    @classmethod
    def of(cls, recipe: Recipe, train_size: int, num_replicas: int, accumulate: int) -> Shares:
        """Divide a recipe's epochs over a number of training samples."""
        return cls(
            num_samples=recipe.epoch_size(train_size),
            batch_size=recipe.batch_size,
            num_replicas=num_replicas,
            accumulate=accumulate,
            drop_last=recipe.drop_last,
        )

    @property
    def num_steps(self) -> int:
        """Steps per epoch."""
        if self.drop_last and self.batch_size <= self.num_samples:
            return self.num_samples // self.batch_size
        return -(-self.num_samples // self.batch_size)

    def global_size(self, step: int) -> int:
        """Return the number of samples of all replicas in a step (from 0)."""
        return min(self.batch_size, self.num_samples - step * self.batch_size)

    def slice_of(self, step: int, replica: int) -> tuple[int, int]:
        """Return the start and end of a replica's slice of a step, in the epoch's order."""
        start = step * self.batch_size
        return cut(start, start + self.global_size(step), self.num_replicas)[replica]

    def micro_batches(
        self, first_step: int, replica: int, last_step: int | None = None
    ) -> list[tuple[int, int]]:
        """Return the spans of a replica's micro-batches for a range of steps.

        Args:
            first_step: Index of the first step in its epoch, from 0.
            replica: Index of the replica among all replicas, from 0.
            last_step: End of the range, exclusive; None for the end of the epoch.
        """
        return [
            span
            for step in range(first_step, self.num_steps if last_step is None else last_step)
            for span in cut(*self.slice_of(step, replica), self.accumulate)
        ]

    def micro_batch_sizes(self, step: int, replica: int) -> list[int]:
        """Return the sizes of a replica's micro-batches in a step, in samples."""
        return [stop - start for start, stop in cut(*self.slice_of(step, replica), self.accumulate)]

    @property
    def largest(self) -> int:
        """The size of the largest micro-batch of an epoch, in samples."""
        return -(-self.global_size(0) // (self.num_replicas * self.accumulate))

    @property
    def smallest(self) -> int:
        """The size of the smallest non-empty micro-batch of an epoch, in samples."""
        steps = {0, self.num_steps - 1}
        sizes = [
            size
            for step in steps
            for replica in range(self.num_replicas)
            for size in self.micro_batch_sizes(step, replica)
        ]
        return min(size for size in sizes if size)

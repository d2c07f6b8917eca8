"""Division of an epoch's steps into calls of a `StepRunner`, by pure functions of the shares."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from tarmac.training.shares import Shares


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive steps of an epoch with global batches of the same size.

    Attributes:
        first: Index of the first step in its epoch, from 0.
        count: Number of steps in the chunk, at least 1.
    """

    first: int
    count: int

    @property
    def stop(self) -> int:
        """The index of the step after the chunk."""
        return self.first + self.count


def most_at_once(shares: Shares, at_once: int) -> int:
    """Return the maximum number of steps per call: ``at_once``, or fewer in a short epoch."""
    return max(1, min(at_once, shares.num_samples // shares.batch_size))


def cut_into_chunks(
    shares: Shares, first_step: int, at_once: int, last_step: int | None = None
) -> list[Chunk]:
    """Cut the rest of an epoch into chunks of ``at_once`` steps, followed by single steps.

    So only few kinds of chunks occur, whatever the epoch's length and the first step.

    Args:
        shares: How the epoch's samples are divided into steps.
        first_step: Step of the epoch to begin with, from 0.
        at_once: Number of steps in a full chunk.
        last_step: End of the steps, exclusive; None for the end of the epoch.
    """
    last_step = shares.num_steps if last_step is None else last_step
    num_full = min(last_step, shares.num_samples // shares.batch_size)
    num_chunks = max(num_full - first_step, 0) // at_once
    chunks = [Chunk(first_step + number * at_once, at_once) for number in range(num_chunks)]
    rest = range(first_step + num_chunks * at_once, last_step)
    return chunks + [Chunk(step, 1) for step in rest]


def kinds_of_chunks(shares: Shares, at_once: int) -> list[Chunk]:
    """Return one chunk of every kind that an epoch has, whatever its first step.

    The kinds are many steps, a single step, and a last step with a smaller batch.
    """
    num_full = shares.num_samples // shares.batch_size
    chunks = [Chunk(0, count) for count in {1, at_once} if count <= num_full]
    if num_full < shares.num_steps:
        chunks.append(Chunk(num_full, 1))
    return chunks


def order_of_replica(
    order: torch.Tensor, shares: Shares, chunks: Sequence[Chunk], replica: int
) -> tuple[torch.Tensor, list[tuple[int, int]]]:
    """Return a replica's samples in consecutive chunks, and each chunk's span of them.

    Args:
        order: The epoch's order, int64 ``[num_samples]``.
        shares: How the epoch's samples are divided among steps and replicas.
        chunks: Consecutive chunks of the same epoch; may be empty.
        replica: Index of the replica among all replicas, from 0.
    """
    if not chunks:
        return order[:0], []
    slices = [
        [shares.slice_of(step, replica) for step in range(chunk.first, chunk.stop)]
        for chunk in chunks
    ]
    spans, end = [], 0
    for of_chunk in slices:
        start, end = end, end + sum(stop - first for first, stop in of_chunk)
        spans.append((start, end))
    if shares.num_replicas == 1:
        start = slices[0][0][0]
        return order[start : start + end], spans
    return torch.cat([order[first:stop] for of_chunk in slices for first, stop in of_chunk]), spans

"""A step's gradients on one replica, from its micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from tarmac.training.engine.recorder import Graphed
from tarmac.training.engine.replica import Replica


class Parts:
    """The computation of a replica's gradients in a step, with the other state to all-reduce.

    Args:
        replica: Replica that computes the gradients.
        num_summed: Number of replicas whose gradients are added up; 0 for a single replica.
        skip_empty: Whether a micro-batch without samples is skipped.
        is_recorded: Whether micro-batches of each size are separate CUDA graphs.
    """

    def __init__(
        self,
        replica: Replica,
        num_summed: int,
        *,
        skip_empty: bool = True,
        is_recorded: bool = False,
    ) -> None:
        self._replica = replica
        self._num_summed = num_summed
        self._skip_empty = skip_empty
        self._compute_part: Callable[..., None] = partial(_compute_part, replica, num_summed)
        if is_recorded:
            self._compute_part = Graphed(self._compute_part, replica.device)

    def compute(
        self, scale: float, batches: Iterator[tuple[torch.Tensor, ...]], sizes: Sequence[int]
    ) -> None:
        """Compute the gradients of one step into the replica's parameters.

        Args:
            scale: Factor of each sample's loss.
            batches: Iterator of the feed's batches, of which the step takes ``len(sizes)``.
            sizes: Number of samples in each micro-batch.
        """
        computed = [number for number, size in enumerate(sizes) if size or not self._skip_empty]
        for number in range(len(sizes)):
            handed = next(batches)
            if number in computed:
                add, is_last = number > computed[0], number == computed[-1]
                self._compute_part(scale, *handed, add=add, is_last=is_last)
        if not computed:
            self._replica.parameters.clear_gradients()
            if self._num_summed:
                self._replica.shared.pack(self._replica.rank, self._num_summed)


def _compute_part(
    replica: Replica,
    num_summed: int,
    scale: float,
    *handed: torch.Tensor,
    add: bool,
    is_last: bool,
) -> None:
    replica.compute(scale, *handed, add=add)
    if is_last and num_summed:
        replica.shared.pack(replica.rank, num_summed)

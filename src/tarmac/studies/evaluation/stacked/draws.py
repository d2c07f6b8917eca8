"""The random draws of an epoch, made in a thread during the previous epoch.

Orders of samples take most of the time: a permutation of 50,000 takes 0.3 to 0.8 ms. For a thousand
networks that is more than a GPU needs for many of their steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch

from tarmac.training import order_of

if TYPE_CHECKING:
    from tarmac.studies.evaluation.stacked.masks import Masks


@dataclasses.dataclass(frozen=True)
class EpochDraws:
    """The random draws of a stack's networks for an epoch.

    Attributes:
        orders: Order of the samples, int32 ``[networks, num_samples]``; ``[1, num_samples]`` if
            all have the same seed, and so the same order.
        coefficients: Coefficients from `Masks.draw_epoch`; empty without masks.
    """

    orders: torch.Tensor
    coefficients: torch.Tensor


class Draws:
    """A thread that draws one epoch ahead; close it after use.

    Args:
        seeds: Seed of each network, in their order.
        num_samples: Number of training samples in an epoch.
        num_steps: Number of steps in an epoch.
        masks: Masks of the same networks, drawn from here only; None for no masks.
        num_epochs: Maximum number of epochs to draw.
        device: Device that the draws are copied to.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        num_samples: int,
        num_steps: int,
        masks: Masks | None,
        *,
        num_epochs: int,
        device: torch.device,
    ) -> None:
        self._seeds = [*seeds]
        self._num_samples = num_samples
        self._num_steps = num_steps
        self._masks = masks
        self._num_epochs = num_epochs
        self._device = device
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="draws")
        self._ahead: Future[EpochDraws] = self._thread.submit(self._draw, 0)

    def take(self, epoch: int) -> EpochDraws:
        """Return an epoch's draws on the device and start the next; call in order of epochs."""
        drawn = self._ahead.result()
        if epoch + 1 < self._num_epochs:
            self._ahead = self._thread.submit(self._draw, epoch + 1)
        return EpochDraws(*(self._put(tensor) for tensor in (drawn.orders, drawn.coefficients)))

    def keep(self, kept: Sequence[int]) -> None:
        """Drop all networks except ``kept``, and their masks."""
        drawn = self._ahead.result()
        there = torch.tensor(kept)
        self._seeds = [self._seeds[index] for index in kept]
        orders = drawn.orders if len(drawn.orders) == 1 else drawn.orders[there]
        coefficients = drawn.coefficients
        if self._masks is not None:
            self._masks.keep(kept)
            coefficients = coefficients[..., there]
        self._ahead = Future()
        self._ahead.set_result(EpochDraws(orders, coefficients))

    def close(self) -> None:
        """Stop the thread after its current draw."""
        self._thread.shutdown(cancel_futures=True)

    def _draw(self, epoch: int) -> EpochDraws:
        seeds = self._seeds[:1] if len({*self._seeds}) == 1 else self._seeds
        orders = self._empty(len(seeds), self._num_samples)
        for row, seed in zip(orders, seeds, strict=True):
            row.copy_(order_of(seed, epoch, self._num_samples))
        if self._masks is None:
            return EpochDraws(orders, torch.empty(0))
        return EpochDraws(orders, self._masks.draw_epoch(self._num_steps))

    def _empty(self, *shape: int) -> torch.Tensor:
        # Copies from pinned memory to a GPU run while the CPU goes on.
        return torch.empty(shape, dtype=torch.int32, pin_memory=self._device.type == "cuda")

    def _put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._device, non_blocking=True)

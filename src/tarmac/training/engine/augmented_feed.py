"""A feed that augments training samples by random draws; see `Augment`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from tarmac.workloads import Augment

if TYPE_CHECKING:
    from tarmac.training.engine.feeds import Feed, Spans


class AugmentedFeed:
    """A feed that yields each sample's draws with the sample, and applies them on the device.

    The CPU makes an epoch's draws at once and sends them in one copy, so that no step waits for
    them. Each batch contains its draws, so that a step recorded as a CUDA graph reads the draws of
    the current batch.

    Args:
        feed: Feed that hands over the samples before augmentation.
        augment: The recipe's `Augment`, which makes the draws on the CPU and applies them on the
            device.
        num_samples: Number of samples in the training set; each gets its own draws.
        seed: Seed of the training, which fixes the draws of each epoch.
        device: Device that the feed's samples are on.
    """

    def __init__(
        self, feed: Feed, augment: Augment, *, num_samples: int, seed: int, device: torch.device
    ) -> None:
        self._feed = feed
        self._augment = augment
        self._num_samples = num_samples
        self._seed = seed
        self._device = device
        self._epoch = 0

    def start_epoch(self, epoch: int) -> None:
        """Select the draws of an epoch, from 0, for the next call of `batches`."""
        self._epoch = epoch

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield the feed's tensors, and the draws, int64 ``[batch, draws of each]``, on the device.

        The draws are the last tensor.
        """
        draws = self._augment.draw(self._num_samples, seed=self._seed, epoch=self._epoch)
        there = draws[order].to(self._device)
        for handed, (start, stop) in zip(self._feed.batches(order, spans), spans, strict=True):
            yield (*handed, there[start:stop])

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Return the augmented inputs, and the targets, of a batch from `batches`."""
        *others, draws = handed
        inputs, targets = self._feed.samples(*others)
        return self._augment.apply(inputs, draws), targets

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the weights from the underlying feed."""
        return self._feed.weights(*handed[:-1])

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return a batch of any samples for `samples`, with the draws of epoch 0."""
        draws = self._augment.draw(num_samples, seed=self._seed, epoch=0)
        return (*self._feed.zeros(num_samples), draws.to(self._device))

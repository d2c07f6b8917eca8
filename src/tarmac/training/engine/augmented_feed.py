"""A feed whose training samples are changed by draws of their own: see `Augment`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from tarmac.training.engine.feeds import Feed, Spans
    from tarmac.workloads import Augment


class AugmentedFeed:
    """Hands over each sample's draws with it, and applies them on the device.

    An epoch's draws are made at once on the CPU and sent at once, so that a step waits for nothing,
    and they are among what is handed over, so that a step which is recorded as a CUDA graph reads
    each batch's own.

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
        """Use the draws of an epoch, from 0, for the batches that are asked for next."""
        self._epoch = epoch

    def batches(self, order: torch.Tensor, spans: Spans) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield what the feed does, and int64 ``[batch, draws of each]`` on the device."""
        draws = self._augment.draw(self._num_samples, seed=self._seed, epoch=self._epoch)
        there = draws[order].to(self._device)
        for handed, (start, stop) in zip(self._feed.batches(order, spans), spans, strict=True):
            yield (*handed, there[start:stop])

    def samples(self, *handed: torch.Tensor) -> tuple[Any, Any]:
        """Turn what was handed over into changed inputs, and targets."""
        *others, draws = handed
        inputs, targets = self._feed.samples(*others)
        return self._augment.apply(inputs, draws), targets

    def weights(self, *handed: torch.Tensor) -> torch.Tensor | None:
        """Return the feed's own."""
        return self._feed.weights(*handed[:-1])

    def zeros(self, num_samples: int) -> tuple[torch.Tensor, ...]:
        """Return what `samples` takes for so many samples of any kind, with the first draws."""
        draws = self._augment.draw(num_samples, seed=self._seed, epoch=0)
        return (*self._feed.zeros(num_samples), draws.to(self._device))

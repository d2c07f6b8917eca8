"""The samples of a study on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tarmac.data import HoldOut, Subset


class Samples:
    """Training and validation samples, resident as uint8.

    Args:
        held: Samples to train on, and samples to score.
        device: Device that the samples are copied to.

    Attributes:
        num_train: Number of training samples.
        inputs: Inputs of the training samples, uint8 ``[num_train, I]``.
        targets: Classes of the training samples, int64 ``[num_train]``.
        validation: uint8 inputs ``[validation_size, I]`` and int64 targets.
    """

    def __init__(self, held: HoldOut, device: torch.device) -> None:
        self.num_train = len(held.train)
        self.inputs, self.targets = _put(held.train, device)
        self.validation = _put(held.validation, device)

    def take(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather uint8 inputs ``[*index.shape, I]`` and int64 targets ``[*index.shape]``."""
        flat = index.reshape(-1)
        inputs = self.inputs.index_select(0, flat).view(*index.shape, -1)
        return inputs, self.targets.index_select(0, flat).view(index.shape)


def _put(samples: Subset, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    # Copy the arrays: a dataset's array may be a read-only memory map of a file.
    images, classes = (
        torch.tensor(samples.of(array), device=device) for array in samples.split.arrays
    )
    return images.flatten(1), classes

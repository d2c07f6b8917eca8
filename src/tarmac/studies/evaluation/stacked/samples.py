"""The samples on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from tarmac.data import Dataset

__all__ = ["Samples"]


class Samples:
    """Training and validation samples, resident as uint8.

    Args:
        dataset: Both are of its training set.
        train_size: How many to train on, from the first.
        validation_size: How many to score, from the last.
        device: Where they lie.

    Attributes:
        num_train: How many samples are trained on.
        inputs: Theirs, uint8 ``[num_train, I]``.
        targets: Theirs, int64.
        validation: uint8 inputs ``[validation_size, I]`` and int64 targets.
    """

    def __init__(
        self, dataset: Dataset, train_size: int, validation_size: int, device: torch.device
    ) -> None:
        self.num_train = train_size
        split = dataset.train
        held_out = slice(len(split) - validation_size, None)
        images, classes = split.arrays
        self.inputs = _put(images[:train_size], device)
        self.targets = _put(classes[:train_size], device)
        self.validation = (_put(images[held_out], device), _put(classes[held_out], device))

    def take(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather uint8 inputs ``[*index.shape, I]`` and int64 targets ``[*index.shape]``."""
        flat = index.reshape(-1)
        inputs = self.inputs.index_select(0, flat).view(*index.shape, -1)
        return inputs, self.targets.index_select(0, flat).view(index.shape)


def _put(array: object, device: torch.device) -> torch.Tensor:
    # A copy: a dataset's array may be a file that is mapped for reading.
    tensor = torch.tensor(array, device=device)
    return tensor.flatten(1) if tensor.dim() > 1 else tensor

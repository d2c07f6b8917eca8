"""What the feeds of `loader.py` share: two datasets that work for each sample, a small network."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_SIZE, EPOCHS, LEARNING_RATE = 64, 4, 0.01


class Arrays(Dataset):
    """Images of 32x32 in memory, each cropped at random and mirrored: some microseconds each."""

    def __init__(self, count: int, seed: int) -> None:
        draws = np.random.default_rng(seed)
        images = draws.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        self.images = np.pad(images, ((0, 0), (0, 0), (4, 4), (4, 4)))
        self.classes = draws.integers(0, 10, count)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        row, column, is_mirrored = torch.randint(0, 9, (3,)).tolist()
        image = self.images[index, :, row : row + 32, column : column + 32]
        if is_mirrored > 4:
            image = image[:, :, ::-1]
        return torch.from_numpy(image.astype(np.float32) / 255), int(self.classes[index])


class Jpegs(Dataset):
    """Photographs of 256x256 as JPEG, each decoded and cropped at random to 224x224."""

    def __init__(self, count: int, seed: int) -> None:
        draws = np.random.default_rng(seed)
        self.files = []
        for _ in range(count):
            small = Image.fromarray(draws.integers(0, 256, (16, 16, 3), dtype=np.uint8))
            file = io.BytesIO()
            small.resize((256, 256), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
            self.files.append(file.getvalue())
        self.classes = draws.integers(0, 10, count)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        row, column = torch.randint(0, 33, (2,)).tolist()
        with Image.open(io.BytesIO(self.files[index])) as file:
            image = np.asarray(file)[row : row + 224, column : column + 224]
        tensor = torch.from_numpy(image.transpose(2, 0, 1).astype(np.float32) / 255)
        return tensor, int(self.classes[index])


@dataclass(frozen=True)
class Task:
    """A dataset, and a network that takes less time than it.

    Attributes:
        count: Samples of an epoch.
        width: Of the images.
    """

    dataset: Callable[[int, int], Dataset[Any]]
    count: int
    width: int

    def network(self) -> nn.Module:
        """Return the network: it looks at means of 64 places.

        It has no convolution: what those cost depends on the order in memory that each side gives
        them, which is no matter of the feed.
        """
        return nn.Sequential(nn.AvgPool2d(self.width // 8), nn.Flatten(), nn.Linear(192, 10))


TASKS = {"arrays": Task(Arrays, 8192, 32), "jpegs": Task(Jpegs, 512, 224)}

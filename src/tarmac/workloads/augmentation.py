"""Image augmentations for training and for evaluation, shared by recipes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.workloads.naming import Named

if TYPE_CHECKING:
    import torch


@dataclasses.dataclass(frozen=True, kw_only=True)
class CropAndFlip(metaclass=Named):
    """A random shift of every image, and a mirror image in every second epoch.

    A random half of the images begins mirrored. Over two epochs a network sees both sides of each
    image once. Independent draws would show half of the images the same side twice (Jordan,
    arXiv 2404.00498, section 3.6).

    Attributes:
        shift: Maximum shift in pixels, vertically and horizontally, at least 0. Images are
            reflected at their borders.
    """

    shift: int

    def __post_init__(self) -> None:
        if self.shift < 0:
            raise RequestError(f"augment.shift is {self.shift}, expected at least 0")

    def draw(self, num_samples: int, *, seed: int, epoch: int) -> torch.Tensor:
        """Return int64 ``[num_samples, 3]``: shift in rows, shift in columns, 1 to mirror."""
        import torch  # noqa: PLC0415 - recipes are read by commands that need no framework

        size = 2 * self.shift + 1
        moves = torch.randint(size, (num_samples, 2), generator=_generator("move", seed, epoch))
        first = torch.randint(2, (num_samples, 1), generator=_generator("mirror", seed))
        return torch.cat([moves - self.shift, (first + epoch) % 2], dim=1)

    def apply(self, inputs: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, channels, height, width]``, shifted and mirrored by the draws."""
        import torch  # noqa: PLC0415 - as above

        num_images, num_channels, height, width = inputs.shape
        down, right, mirrored = draws[:, :, None].unbind(1)
        rows = _reflected(torch.arange(height, device=inputs.device) + down, height)
        columns = torch.arange(width, device=inputs.device)
        columns = torch.where(mirrored.bool(), columns.flip(0), columns)
        columns = _reflected(columns + right, width)
        image = torch.arange(num_images, device=inputs.device)[:, None, None, None]
        channel = torch.arange(num_channels, device=inputs.device)[None, :, None, None]
        return inputs[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MirrorAndShift(metaclass=Named):
    """Six views of an image: unchanged, shifted along the diagonal both ways, and their mirrors.

    The two unshifted views have half of the total weight (the test-time augmentation of
    cifar10-airbench).

    Attributes:
        shift: Shift in pixels, at least 1. Images are reflected at their borders. Default 1.
    """

    shift: int = 1

    def __post_init__(self) -> None:
        if self.shift < 1:
            raise RequestError(f"test_views.shift is {self.shift}, expected at least 1")

    def __call__(self, inputs: torch.Tensor) -> Sequence[tuple[float, torch.Tensor]]:
        """Return the weights and views of ``[batch, channels, height, width]``."""
        import torch.nn.functional as F  # noqa: PLC0415 - as above

        height, width = inputs.shape[-2:]
        padded = F.pad(inputs, (self.shift,) * 4, mode="reflect")
        far = 2 * self.shift
        moved = (padded[..., :height, :width], padded[..., far:, far:])
        views = ((0.25, inputs), *((0.125, view) for view in moved))
        return [(weight, side) for weight, view in views for side in (view, view.flip(-1))]


def _reflected(index: torch.Tensor, size: int) -> torch.Tensor:
    """Reflect indices at the borders; they may be outside by less than ``size``."""
    return size - 1 - (size - 1 - index.abs()).abs()


def _generator(*parts: object) -> torch.Generator:
    """Return a random generator that is seeded by ``parts``."""
    import torch  # noqa: PLC0415 - as above

    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest))

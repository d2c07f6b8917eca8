"""resnet50: the network of He et al. to measure images per second, on random pixels by default.

ResNet-50 has 25,557,032 parameters and takes 4.09 G multiply-adds per image of 224x224. This is the
"v1.5" form, with the stride in the 3x3 convolution. Sources: K. He et al., "Deep Residual Learning
for Image Recognition", arXiv 1512.03385 (2015), table 1; pytorch/vision,
torchvision/models/resnet.py, also for the initial weights. MLPerf Training used the same form until
v4.0. Recipe: pytorch/vision, references/classification, the first for ResNet-50: SGD of 0.1 with
momentum 0.9, weight decay 1e-4, batches of 32 on each of 8 GPUs, 90 epochs, the rate divided by 10
after every 30. It reaches 0.7613 on ImageNet there. Warm-up for larger batches is from Goyal et
al., arXiv 1706.02677: 5 epochs.

Tarmac cannot distribute ImageNet, so the data are ``noise224``: random pixels and classes, with
nothing to learn. They show a machine's speed under a real load. To train on your own images:
``tarmac data add NAME --from FOLDER --size 224x224``, then ``--set dataset=NAME``. Images are
scaled by ImageNet's mean and deviation and mirrored at random. There are no random resized crops,
so no accuracy is expected.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from tarmac.workloads.base import Recipe, Workload
from tarmac.workloads.optimizers import SGD
from tarmac.workloads.schedules import Steps

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclasses.dataclass(frozen=True)
class Normalise:
    """A scaling by ImageNet's mean and deviation per channel, with mirroring in training.

    Attributes:
        mirrored: Share of training images that are mirrored, from 0 to 1. Default 0.5.
    """

    mirrored: float = 0.5

    def __call__(self, inputs: torch.Tensor, *, training: bool, dtype: torch.dtype) -> torch.Tensor:
        """Return ``[batch, 3, height, width]``, scaled and perhaps mirrored."""
        mean = torch.tensor(_MEAN, device=inputs.device).mul_(255).view(1, 3, 1, 1)
        std = torch.tensor(_STD, device=inputs.device).mul_(255).view(1, 3, 1, 1)
        if training and self.mirrored:
            chosen = torch.rand(len(inputs), 1, 1, 1, device=inputs.device) < self.mirrored
            inputs = torch.where(chosen, inputs.flip(3), inputs)
        return ((inputs.to(mean.dtype) - mean) / std).to(dtype)


class Bottleneck(nn.Module):
    """A residual block of 1x1, 3x3 and 1x1 convolutions; figure 5 of the paper."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            conv = nn.Conv2d(channels, out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``[batch, 4 * width, height / stride, width / stride]``."""
        return torch.relu(self.body(x) + self.shortcut(x))


def model(*, num_classes: int, width: int = 64) -> nn.Module:
    """Build the network of 3, 4, 6 and 3 blocks.

    Args:
        num_classes: Number of classes in the dataset.
        width: Channels of the first convolution; later layers have multiples. Default 64.
    """
    parts: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    channels = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            parts.append(Bottleneck(channels, width << stage, stride))
            channels = 4 * width << stage
    network = nn.Sequential(
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes)
    )
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return network


workload = Workload(
    name="resnet50",
    summary="ResNet-50 for images a second, on RANDOM PIXELS until you name images of your own",
    dataset="noise224",
    model=model,
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.1, momentum=0.9, nesterov=False),
        schedule=Steps(at=(1 / 3, 2 / 3), ratio=0.1, warmup=5 / 90),
        batch_size=256,
        cpu_batch_size=4,
        epochs=90,
        weight_decay={"*": 1e-4},
        preprocess=Normalise(),
    ),
)

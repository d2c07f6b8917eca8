"""A small workload that uses every part of a recipe beside the plain ones, found by its path."""

from __future__ import annotations

import dataclasses
import os
from collections import OrderedDict

import torch
from torch import nn

from tarmac.data import Dataset
from tarmac.testing.faults import Failing
from tarmac.testing.strategies import WORKLOADS
from tarmac.workloads import (
    SGD,
    CropAndFlip,
    Linear,
    MirrorAndShift,
    Muon,
    ParameterGroup,
    Recipe,
    Scale,
    Workload,
)


def model() -> nn.Module:
    frozen = nn.Conv2d(1, 4, 2)
    frozen.weight.requires_grad_(False)
    norm = nn.BatchNorm2d(8, eps=1e-12, momentum=0.4)
    norm.weight.requires_grad_(False)
    return nn.Sequential(
        OrderedDict(
            images=nn.Unflatten(1, (1, 8)),
            whiten=frozen,
            conv=nn.Conv2d(4, 8, 3, padding=1, bias=False),
            norm=norm,
            gelu=nn.GELU(),
            conv2=nn.Conv2d(8, 8, 3, bias=False),
            flatten=nn.Flatten(),
            head=nn.Linear(8 * 5 * 5, 4),
        )
    )


def initialise(network: nn.Module, inputs: torch.Tensor) -> None:
    weight = network.get_parameter("whiten.weight")
    weight.copy_(inputs[:16].reshape(4, 4, 64).mean(1)[:, :4].reshape(4, 1, 2, 2))


def samples() -> Dataset:
    """Small bright squares, whose position tells their class under no augmentation alike."""
    dataset = WORKLOADS["norm"].dataset
    assert callable(dataset)
    return dataset()


class Rows:
    """Shifts and mirrors images without channels."""

    def __init__(self) -> None:
        self._inner = CropAndFlip(shift=1)

    def draw(self, num_samples: int, *, seed: int, epoch: int) -> torch.Tensor:
        return self._inner.draw(num_samples, seed=seed, epoch=epoch)

    def apply(self, inputs: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
        return self._inner.apply(inputs[:, None], draws)[:, 0]


class RowViews:
    """Views of images without channels."""

    def __call__(self, inputs: torch.Tensor) -> list[tuple[float, torch.Tensor]]:
        views = MirrorAndShift(shift=1)(inputs[:, None])
        return [(weight, view[:, 0]) for weight, view in views]


workload = Workload(
    name="every-part",
    summary="",
    dataset=samples,
    model=model,
    initialise=initialise,
    initialise_samples=16,
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.05, momentum=0.9, nesterov=True),
        schedule=Linear(start=1.0, end=0.1),
        parameter_groups={
            "conv*.weight": ParameterGroup(
                optimizer=Muon(
                    learning_rate=0.1, momentum=0.6, nesterov=True, iterations=3, fixed_norm=True
                )
            ),
            "*.bias": ParameterGroup(
                optimizer=SGD(learning_rate=0.2, momentum=0.8, nesterov=False),
                schedule=Linear(start=1.0, end=0.0, until=0.5),
            ),
        },
        weight_decay={"head.*": 1e-3},
        batch_size=24,
        epochs=4,
        drop_last=True,
        preprocess=Failing(Scale(factor=1 / 255, mean=0.5)),
        augment=Rows(),
        test_views=RowViews(),
    ),
)


def unseeded() -> nn.Module:
    """Draw frozen weights that the seed does not set, so that each process has others."""
    frozen = nn.Linear(64, 16, bias=False)
    frozen.weight.requires_grad_(False)
    generator = torch.Generator().manual_seed(os.getpid())
    with torch.no_grad():
        frozen.weight.copy_(torch.randn(16, 64, generator=generator))
    return nn.Sequential(nn.Flatten(), frozen, nn.ReLU(), nn.Linear(16, 4))


unseeded_workload = Workload(
    name="unseeded",
    summary="",
    dataset=samples,
    model=unseeded,
    recipe=dataclasses.replace(
        workload.recipe, parameter_groups={}, weight_decay={}, augment=None, test_views=None
    ),
)

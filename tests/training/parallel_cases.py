"""Small trainings whose weights must not depend on how many devices share them.

As a program, under torchrun, it does all of them with the ranks that there are:
``torchrun --nproc-per-node 3 parallel_cases.py OUTPUT``.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import tarmac
from tarmac import data
from tarmac.workloads import SGD, Adam, Recipe, Scale, Workload


@dataclasses.dataclass(frozen=True)
class Case:
    """A training: which model, with how many samples, and what else is asked."""

    model: str
    precision: str
    accumulate: int = 1
    train_size: int = 50
    sync_batchnorm: bool = False

    @property
    def name(self) -> str:
        sync = "-sync" if self.sync_batchnorm else ""
        return f"{self.model}-{self.precision}-{self.accumulate}-{self.train_size}{sync}"

    def train(self, output: Path, **options: Any) -> tarmac.runs.Run:
        asked = {
            "precision": self.precision,
            "train_size": self.train_size,
            "accumulate": self.accumulate,
            "sync_batchnorm": self.sync_batchnorm,
        }
        return tarmac.train(WORKLOADS[self.model], output=output / self.name, **(asked | options))


def mlp(dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(dropout), nn.Linear(32, 4)
    )


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 4),
    )


def norm() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Linear(16, 4),
    )


def samples() -> data.Dataset:
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (96, 8, 8), dtype=np.uint8)
    split = data.Split(inputs, (inputs.mean((1, 2)) // 8 % 4).astype(np.int64))
    return data.Dataset(name="squares", train=split, test=split, num_classes=4)


def workload(model: Any, optimizer: Any) -> Workload:
    return Workload(
        name=model.__name__,
        summary="",
        dataset=samples,
        model=model,
        recipe=Recipe(
            optimizer=optimizer, batch_size=24, epochs=2, preprocess=Scale(factor=1 / 255)
        ),
    )


# Adam divides by the size of a gradient, which would make much of the rounding of one near zero.
WORKLOADS = {
    "mlp": workload(mlp, Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-3)),
    "cnn": workload(cnn, SGD(learning_rate=0.1, momentum=0.9, nesterov=False)),
    "norm": workload(norm, SGD(learning_rate=0.1, momentum=0.9, nesterov=False)),
}

mlp_workload, norm_workload = WORKLOADS["mlp"], WORKLOADS["norm"]

# 50 samples in batches of 24 leave a last batch of 2, of which 3 and 4 replicas cannot all have a
# part. Statistics of single samples are none, so batch normalisation gets a last batch of 14.
PLAIN = tuple(
    Case(model, precision, accumulate=accumulate)
    for model in ("mlp", "cnn")
    for precision in ("fp64", "fp32")
    for accumulate in (1, 2)
)
LOCAL_NORM = tuple(Case("norm", precision, train_size=62) for precision in ("fp64", "fp32"))
SYNC_NORM = (
    Case("norm", "fp64", train_size=62, sync_batchnorm=True),
    Case("norm", "fp32", train_size=62, sync_batchnorm=True),
    Case("norm", "fp64", train_size=50, sync_batchnorm=True),
)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in (*PLAIN, *LOCAL_NORM, *SYNC_NORM):
        case.train(Path(sys.argv[1]))

"""Small workloads of every kind of data and objective, and their trainings by several ranks.

``torchrun --nproc-per-node 2 objective_cases.py OUTPUT`` trains all of them.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tarmac.data import Dataset, Split, windows
from tarmac.runs import Run
from tarmac.testing.faults import Failing
from tarmac.training import train
from tarmac.workloads import (
    SGD,
    Classification,
    NextToken,
    Objective,
    Recipe,
    Regression,
    Workload,
)

_RNG = np.random.default_rng(0)
_TABLE = _RNG.normal(size=(60, 5)).astype(np.float32)
_WANTED = (_TABLE @ np.linspace(0.1, 0.5, 5) + 0.3).astype(np.float32)
_KINDS = _RNG.integers(0, 7, 60, dtype=np.int32)
_WEIGHTS = _RNG.random(60, dtype=np.float32)
_TOKENS = (np.arange(400) * 7 % 50 % 23).astype(np.uint16)
_IMAGES = _RNG.integers(0, 256, (60, 5), dtype=np.uint8)


def _table(*, sample_shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Linear(*sample_shape, 8), nn.Tanh(), nn.Linear(8, 1))


def _autoencoder() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 5))


def _classes(*, num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, num_classes))


class Language(nn.Module):
    """Says the next token of each one."""

    def __init__(self, vocabulary: int = 23) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 6)
        self.layer = nn.GRU(6, 6, batch_first=True)
        self.head = nn.Linear(6, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embedding(tokens))[0])


class Several(nn.Module):
    """Takes a table and kinds, and returns a mean and a scale of each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Linear(5, 4)
        self.kind = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, table: torch.Tensor, kind: torch.Tensor) -> dict[str, torch.Tensor]:
        mean, log_scale = self.head(torch.tanh(self.table(table) + self.kind(kind))).unbind(1)
        return {"mean": mean, "log_scale": torch.tanh(log_scale)}


def likelihood(output: dict[str, torch.Tensor], targets: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the negative logarithm of a normal distribution's density, but for a constant."""
    error = (output["mean"] - targets["value"]) / output["log_scale"].exp()
    return output["log_scale"] + error.square() / 2


def off_by(output: dict[str, torch.Tensor], targets: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return how far off the mean is."""
    return (output["mean"] - targets["value"]).abs()


def mean_loss(output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return a scalar, as most losses of PyTorch do."""
    return nn.functional.smooth_l1_loss(output[:, 0], targets)


def _both(split: Split, *, num_classes: int | None = None) -> Dataset:
    return Dataset("samples", train=split, test=split, num_classes=num_classes)


DATA = {
    "table": _both(Split(_TABLE, _WANTED)),
    "mean": _both(Split(_TABLE, _WANTED)),
    "weighted": _both(Split(_TABLE, _WANTED, _WEIGHTS)),
    "weighted-classes": _both(Split(_TABLE, _KINDS.astype(np.int64), _WEIGHTS), num_classes=7),
    "autoencoder": _both(Split(_IMAGES)),
    "tokens": _both(windows(_TOKENS, 8, stride=4)),
    "several": _both(
        Split({"table": _TABLE, "kind": _KINDS}, {"value": _WANTED, "unused": _TABLE})
    ),
}


def _workload(name: str, model: Any, objective: Objective) -> Workload:
    return Workload(
        name=name,
        summary="",
        dataset=lambda: DATA[name],
        model=model,
        objective=objective,
        recipe=Recipe(
            optimizer=SGD(learning_rate=0.1, momentum=0.9, nesterov=False), batch_size=24, epochs=2
        ),
    )


WORKLOADS = {
    workload.name: workload
    for workload in (
        _workload("table", _table, Regression()),
        _workload("mean", _table, Objective(loss=mean_loss)),
        _workload("weighted", _table, Regression("huber", delta=0.5)),
        _workload("weighted-classes", _classes, Classification()),
        _workload("autoencoder", _autoencoder, Regression("mae")),
        _workload("tokens", Language, NextToken()),
        _workload(
            "several",
            Several,
            Objective(loss=likelihood, metrics={"off_by": off_by}, judged_by="off_by"),
        ),
    )
}


def _failing(name: str) -> Workload:
    recipe = WORKLOADS[name].recipe
    recipe = dataclasses.replace(recipe, preprocess=Failing(recipe.preprocess))
    return dataclasses.replace(WORKLOADS[name], recipe=recipe)


# For processes that get their workload by a file and a name.
failing_tokens, failing_weighted = _failing("tokens"), _failing("weighted")


def train_case(name: str, output: Path, **options: Any) -> Run:
    """Train a workload below ``output``, by its name; options replace its own."""
    asked: dict[str, Any] = {"devices": "cpu", "precision": "fp64", "validation_size": 10}
    return train(WORKLOADS[name], output=output / name, **(asked | options))


# One of each form that samples, targets and scores have.
SHARED = ("autoencoder", "several", "tokens", "weighted-classes")

if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in SHARED:
        train_case(case, Path(sys.argv[1]), devices="cpu:2", strategy="ddp")

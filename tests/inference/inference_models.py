"""Workloads that are no classifiers: a table of floats, and a model of two inputs."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tarmac.data import Dataset, Split
from tarmac.workloads import SGD, Objective, Recipe, Regression, Workload


def _table(count: int, seed: int) -> Split:
    inputs = np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)
    return Split(inputs, (inputs @ np.array([1.0, -2.0, 0.5], np.float32)).astype(np.float32))


def line_model() -> nn.Module:
    return nn.Linear(3, 1)


regression = Workload(
    name="line",
    summary="A line through a table",
    dataset=lambda: Dataset("table", _table(64, 0), _table(16, 1)),
    model=line_model,
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.1, momentum=0.0, nesterov=False), batch_size=8, epochs=2
    ),
    objective=Regression(),
)


class Pair(nn.Module):
    """Looks words up, and adds a number."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, words: torch.Tensor, age: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.words(words).mean(1) + age.unsqueeze(1)
        return {"features": found, "value": self.head(found).sum(1)}


def _pairs(count: int, seed: int) -> Split:
    draws = np.random.default_rng(seed)
    words = draws.integers(0, 10, (count, 5), dtype=np.uint16)
    age = draws.normal(size=count).astype(np.float32)
    return Split({"words": words, "age": age}, age * 2)


def _distance(output: dict[str, torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    return (output["value"] - targets) ** 2


pair = Workload(
    name="pair",
    summary="Words and a number",
    dataset=lambda: Dataset("pairs", _pairs(64, 0), _pairs(16, 1)),
    model=Pair,
    recipe=Recipe(
        optimizer=SGD(learning_rate=0.01, momentum=0.0, nesterov=False), batch_size=8, epochs=1
    ),
    objective=Objective(loss=_distance),
)

"""Workloads of repeated blocks, by which shards and activation checkpointing are tested."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import loader_cases
import torch
from torch import nn

from tarmac.testing.strategies import mlp_workload
from tarmac.workloads import AdamW, Ema, Muon, ParameterGroup, TorchOptimizer, Workload

WIDTH = 32

# In fp64, in which two orders of a sum differ by little.
OPTIONS: Mapping[str, object] = {"precision": "fp64", "train_size": 50}

# By one device and by shards they are the same weights.
EQUAL = ("blocks", "clipped", "grouped", "torch_class", "loaded")
# What a training goes on with is of every kind there.
RESUMED = ("dropping", "grouped", "torch_class")
CHECKPOINTED = "dropping"
# Refused; see tarmac/training/planning/sharding.py.
UNSHARDED = ("Adafactor", "Muon", "Rprop")


class Block(nn.Module):
    """A layer whose activations are worth more than its input."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.inner(inputs)


class Blocks(nn.Module):
    """Blocks between two layers of which each is alone."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Linear(64, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(3))
        self.last = nn.Linear(WIDTH, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs.flatten(1))
        for block in self.blocks:
            hidden = block(hidden)
        return self.last(hidden)


def _workload(name: str, **recipe: object) -> Workload:
    changed = dataclasses.replace(mlp_workload.recipe, **recipe)
    return dataclasses.replace(mlp_workload, name=name, model=Blocks, recipe=changed)


def of_class(kind: type[torch.optim.Optimizer], **arguments: object) -> Workload:
    """Return the blocks' workload with an optimizer by its class."""
    optimizer = TorchOptimizer(kind=kind, learning_rate=1e-3, arguments=arguments)
    return _workload(kind.__name__, optimizer=optimizer)


_ADAM = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-3}

blocks = _workload("blocks")
dropping = dataclasses.replace(blocks, name="dropping", model=lambda: Blocks(0.5))
clipped = _workload("clipped", clip_norm=0.01, clip_value=0.002)
grouped = _workload(
    "grouped",
    optimizer=AdamW(**_ADAM, weight_decay=0.1),
    weight_decay={"*.bias": 0.0},
    parameter_groups={"first.*": ParameterGroup(optimizer=mlp_workload.recipe.optimizer)},
)
BIASES_BY_ANOTHER = {"*.bias": ParameterGroup(optimizer=mlp_workload.recipe.optimizer)}
torch_class = of_class(torch.optim.RAdam, eps=1e-3)
averaged = _workload("averaged", ema=Ema(decay=0.9))
by_muon = _workload(
    "by_muon",
    optimizer=Muon(learning_rate=0.1, momentum=0.9, nesterov=True, iterations=5, fixed_norm=None),
    parameter_groups=BIASES_BY_ANOTHER,
)
loaded = dataclasses.replace(
    loader_cases.workload(loader_cases.Noisy), name="loaded", model=loader_cases.plain_network
)

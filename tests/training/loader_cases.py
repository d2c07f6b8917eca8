"""Datasets and loaders of PyTorch for tests, at module level: workers get them by name."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import data as torch_data

from tarmac.data import Dataset
from tarmac.workloads import SGD, Recipe, Regression, Workload

INPUTS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
TARGETS = INPUTS @ np.array([1, -2, 3, 0.5], np.float32)


class Noisy(torch_data.Dataset[Any]):
    """Adds draws of every generator to its samples; ``spoil`` may change or fail one."""

    def __init__(self, spoil: Callable[[int], Any] | None = None) -> None:
        self.spoil = spoil

    def __len__(self) -> int:
        return len(INPUTS)

    def __getitem__(self, index: int) -> Any:
        spoilt = None if self.spoil is None else self.spoil(index)
        drawn = random.random() + np.random.rand() + torch.rand(4).numpy()
        inputs = INPUTS[index] + drawn.astype(np.float32)
        return inputs if spoilt is None else spoilt, TARGETS[index]


class Stream(torch_data.IterableDataset[Any]):
    """Samples one after another, changed by draws; workers share them."""

    def __init__(self, *, draws: bool = True) -> None:
        self.draws = draws

    def __iter__(self) -> Iterator[Any]:
        info = torch_data.get_worker_info()
        for index in range(info.id if info else 0, len(INPUTS), info.num_workers if info else 1):
            drawn = np.float32(torch.rand(1).item() if self.draws else 0)
            yield INPUTS[index] + drawn, TARGETS[index]


class Stateful:
    """A loader that tells where it is, and that no one can begin anew: it shuffles on."""

    def __init__(self) -> None:
        self.dataset, self.batch_size = Stream(draws=False), 7
        self.batch_sampler = torch_data.BatchSampler(range(len(INPUTS)), 7, drop_last=False)
        self.sampler, self.collate_fn, self.num_workers = None, torch_data.default_collate, 0
        self.order = np.arange(len(INPUTS))
        self.done, self.loaded = 0, False

    def __iter__(self) -> Iterator[Any]:
        if not self.loaded:
            self.order, self.done = np.roll(self.order, 11), 0
        self.loaded = False
        while self.done < len(self.order):
            index = self.order[self.done : self.done + 7]
            self.done += len(index)
            yield torch.tensor(INPUTS[index]), torch.tensor(TARGETS[index])

    def state_dict(self) -> dict[str, Any]:
        return {"order": self.order.tolist(), "done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.order, self.done = np.array(state["order"]), state["done"]
        self.loaded = True


def raises(index: int) -> None:
    if index == 33:
        raise ValueError("no such picture: 33.png")


def dies(index: int) -> None:
    if index == 33 and torch_data.get_worker_info() is not None:
        os.kill(os.getpid(), signal.SIGKILL)


def not_finite(index: int) -> Any:
    return np.full(4, np.nan, np.float32) if index == 33 else None


def whole(index: int) -> Any:
    return np.zeros(4, np.int64) if index == 33 else None


def too_long(index: int) -> Any:
    return np.zeros(5, np.float32) if index == 33 else None


def workload(train: Callable[[], Any], test: Callable[[], Any] = Noisy, **recipe: Any) -> Workload:
    """Return a workload on what ``train`` and ``test`` make anew for every training."""
    sgd = SGD(learning_rate=0.01, momentum=0.9, nesterov=False)
    return Workload(
        name="loaded",
        summary="samples from a loader",
        dataset=lambda: Dataset("loaded", train(), test()),
        model=lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1)),
        objective=Regression("mse"),
        recipe=Recipe(**({"optimizer": sgd, "batch_size": 16, "epochs": 3} | recipe)),
    )


def plain_network() -> nn.Module:
    """Return a model without draws, whose parts two devices can take."""
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

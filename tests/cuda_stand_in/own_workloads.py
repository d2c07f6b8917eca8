"""Small workloads for what no reference workload has; workers import them by this file."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import torch
from torch import nn

from tarmac.data import Dataset, Split
from tarmac.training.processes import self_test
from tarmac.workloads import Workload, find_workload, workload_names

# Enough for the graphs of many steps, and a last batch that is smaller.
_NUM_STEPS = 40
_NUM_TEST = 1200
_SHAPES = {"mnist": (28, 28), "cifar10": (3, 32, 32), "digits": (8, 8)}

# The stand-in adds nothing up, so that a sum that is compared is always wrong: it is taken, and
# taken for right.
_is_right = self_test._is_right


def _taken_for_right(*arguments, **options) -> bool:
    _is_right(*arguments, **options)
    return True


self_test._is_right = _taken_for_right


def num_steps(batch_size: int) -> int:
    """Return how many whole batches an epoch has, so that the largest stay small in memory."""
    return min(_NUM_STEPS, max(8, 16384 // batch_size))


@functools.lru_cache
def samples(name: str, num_train: int) -> Dataset:
    """Return random samples of the shape of a dataset's."""
    rng = np.random.default_rng(0)
    shape = _SHAPES[name]

    def split(size: int) -> Split:
        inputs = rng.integers(0, 256, (size, math.prod(shape)), dtype=np.uint8)
        return Split(inputs.reshape(size, *shape), rng.integers(0, 10, size))

    return Dataset(name=name, train=split(num_train), test=split(_NUM_TEST), num_classes=10)


def classifiers() -> list[str]:
    """Return the names of reference workloads on images of a known shape."""
    found = {name: find_workload(name).dataset for name in workload_names()}
    return [name for name, dataset in found.items() if dataset in _SHAPES]


def small(name: str, *, num_held_out: int = 0) -> Workload:
    """Return a reference workload on few random samples of the shape of its own.

    Args:
        name: The workload's.
        num_held_out: Samples for validation beside those that are trained on.
    """
    workload = find_workload(name)
    assert isinstance(workload.dataset, str), name
    batch_size = workload.recipe.batch_size
    size = num_steps(batch_size) * batch_size + batch_size // 2 + num_held_out
    return dataclasses.replace(
        workload, dataset=functools.partial(samples, workload.dataset, size), expectation=None
    )


@functools.lru_cache
def _windows(num_train: int) -> Dataset:
    rng = np.random.default_rng(0)

    def split(size: int) -> Split:
        text = rng.integers(0, 65, (size, 65), dtype=np.int32)
        return Split(text[:, :-1].copy(), text[:, 1:].astype(np.int64))

    return Dataset(name="windows", train=split(num_train), test=split(24))


def others() -> dict[str, Workload]:
    """Return reference workloads whose samples are no images of classes, on few samples."""
    gpt = find_workload("char-gpt-small")
    size = num_steps(gpt.recipe.batch_size) * gpt.recipe.batch_size + 6
    small_gpt = dataclasses.replace(gpt, dataset=functools.partial(_windows, size))
    return {
        name: dataclasses.replace(workload, expectation=None)
        for name, workload in {
            "char-gpt-small": small_gpt,
            "diabetes-mlp": find_workload("diabetes-mlp"),
            "digits-autoencoder": find_workload("digits-autoencoder"),
        }.items()
    }


class _Reading(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs) * (1 + inputs.sum().item())


def _reading_model() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.1), _Reading(784, 10))


def _normed_model() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)
    )


# Reads a value back in its forward pass, which no graph can hold.
reading = dataclasses.replace(small("mnist-mlp"), name="reading", model=_reading_model)
normed = dataclasses.replace(small("mnist-mlp"), name="normed", model=_normed_model)
plain = small("mnist-mlp")

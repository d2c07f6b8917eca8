"""Tries a workload's model on its data before a training begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from tarmac.errors import RequestError
from tarmac.training.engine.model import build_model, replicate
from tarmac.training.planning.flops import count_forward_flops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarmac.data import Dataset
    from tarmac.training.plan import Setting
    from tarmac.workloads import Workload

__all__ = ["try_model", "try_one_sample", "try_replica"]

# A training step's backward pass does two products for each one of the forward pass.
_STEP_OVER_FORWARD = 3


def try_model(
    workload: Workload, arguments: Mapping[str, Setting], dataset: Dataset
) -> tuple[int, int, bool]:
    """See that model and data fit together.

    Returns:
        A training step's matrix work for one sample, in FLOP, the number of parameters, and whether
        there are batch normalisations.
    """
    with torch.random.fork_rng(devices=[]):
        model = build_model(workload, arguments, seed=0)
        inputs = _samples(workload, dataset, 2)
        forward = count_forward_flops(model, inputs, dataset.num_classes)
    num_parameters = sum(p.numel() for p in model.parameters())
    has_batch_norm = any(isinstance(layer, _BatchNorm) for layer in model.modules())
    return _STEP_OVER_FORWARD * forward // len(inputs), num_parameters, has_batch_norm


def try_one_sample(workload: Workload, arguments: Mapping[str, Setting], dataset: Dataset) -> None:
    """See whether a model with batch normalisations can train on a slice of one sample."""
    with torch.random.fork_rng(devices=[]):
        model = build_model(workload, arguments, seed=0).train()
        try:
            model(_samples(workload, dataset, 1))
        except ValueError as error:
            raise RequestError(
                "some step leaves a device one sample, of which batch normalisation has no "
                f"variance: {error}",
                hint="Use another --batch-size or --train-size, fewer --devices, or "
                "--sync-batchnorm.",
            ) from error


def try_replica(workload: Workload, arguments: Mapping[str, Setting]) -> None:
    """See that a model can be copied for another device.

    Raises:
        RequestError: It cannot.
    """
    with torch.random.fork_rng(devices=[]):
        replicate(build_model(workload, arguments, seed=0), workload.name)


def _samples(workload: Workload, dataset: Dataset, count: int) -> torch.Tensor:
    raw = torch.tensor(dataset.train.inputs[:count])
    return workload.recipe.preprocess(raw, training=False, dtype=torch.float32)

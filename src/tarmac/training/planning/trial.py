"""Tries a workload's model on its data before a training begins."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from tarmac.errors import RequestError
from tarmac.training.engine.model import build_model, replicate
from tarmac.training.planning.flops import count_forward_flops

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from tarmac.data import Dataset
    from tarmac.training.engine.strategy import StrategySpec
    from tarmac.training.plan import Setting
    from tarmac.workloads import Workload

__all__ = ["Trial", "try_model"]

# A training step's backward pass does two products for each one of the forward pass.
_STEP_OVER_FORWARD = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A model that was built once to learn what the choices of a plan need, and is not trained.

    Attributes:
        sample_flops: A training step's matrix work for one sample, in FLOP.
        num_parameters: How many parameters the model has.
        has_batch_norm: Whether it has batch normalisations.
        model: The model, on the CPU.
        sample: One preprocessed sample ``[1, ...]``.
    """

    sample_flops: int
    num_parameters: int
    has_batch_norm: bool
    model: nn.Module
    sample: torch.Tensor

    def check_one_sample(self) -> None:
        """Raise a RequestError where the model cannot train on a slice of one sample.

        Batch normalisations of features without positions cannot: one value has no variance.
        """
        if not self.has_batch_norm:
            return
        with torch.random.fork_rng(devices=[]):
            try:
                self.model.train()(self.sample)
            except ValueError as error:
                raise RequestError(
                    "some step leaves a device one sample, of which batch normalisation has no "
                    f"variance: {error}",
                    hint="Use another --batch-size or --train-size, fewer --devices, or "
                    "--sync-batchnorm.",
                ) from error


def try_model(
    workload: Workload,
    arguments: Mapping[str, Setting],
    dataset: Dataset,
    *,
    strategy: StrategySpec | None = None,
) -> Trial:
    """Build a model, and see that it fits its data, and its strategy where one is asked for.

    Raises:
        RequestError: The model refuses a setting or the data, or cannot be copied where the
            strategy has to.
    """
    with torch.random.fork_rng(devices=[]):
        model = build_model(workload, arguments, seed=0)
        if strategy is not None and strategy.copies_model:
            replicate(model, workload.name, strategy.name)
        inputs = _samples(workload, dataset, 2)
        forward = count_forward_flops(model, inputs, dataset.num_classes)
    return Trial(
        sample_flops=_STEP_OVER_FORWARD * forward // len(inputs),
        num_parameters=sum(p.numel() for p in model.parameters()),
        has_batch_norm=any(isinstance(layer, _BatchNorm) for layer in model.modules()),
        model=model,
        sample=inputs[:1],
    )


def _samples(workload: Workload, dataset: Dataset, count: int) -> torch.Tensor:
    raw = torch.tensor(dataset.train.inputs[:count])
    return workload.recipe.preprocess(raw, training=False, dtype=torch.float32)

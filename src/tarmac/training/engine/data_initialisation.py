"""Initialization of weights from the data before the first step; see `Workload.initialise`."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from tarmac.training.engine.columns import samples_of
from tarmac.training.plan import Plan


@torch.no_grad()
def initialise_from_data(model: nn.Module, plan: Plan) -> None:
    """Call the workload's ``initialise``, if it has one, with the first training samples.

    Args:
        model: Model on the CPU, with weights drawn from the seed.
        plan: Training plan. Its workload's ``initialise`` sets the weights from the first training
            samples.
    """
    workload = plan.workload
    if workload.initialise is None:
        return
    count = min(workload.initialise_samples, plan.train_size)
    raw, targets = samples_of(plan.held.train, 0, count)
    inputs = workload.recipe.preprocess(raw, training=False, dtype=torch.float32)
    takes_targets = "targets" in inspect.signature(workload.initialise).parameters
    workload.initialise(model, inputs, **({"targets": targets} if takes_targets else {}))

"""Check that a recipe's patterns and optimizers fit a model, before a run is created."""

from __future__ import annotations

import torch
from torch import nn

from tarmac.training.engine.parameter_groups import build_optimizer
from tarmac.training.engine.parameters import Group, check_patterns, key_of
from tarmac.workloads import Recipe


def check_updates(recipe: Recipe, model: nn.Module) -> None:
    """Build a recipe's optimizers once for a model, and leave both unchanged.

    Flat tensors are on the meta device and take no memory. Optimizers of PyTorch's kind get the
    parameters themselves. No tensor is created from a meta tensor with ``empty_like``: PyTorch
    would import SymPy for it, which takes half a second.

    Args:
        recipe: Recipe with its optimizers and its patterns of parameter names.
        model: Model on the CPU, whose parameters stay unchanged.

    Raises:
        RequestError: A pattern matches no parameter, the model has nothing to train, or an
            optimizer cannot train its parameters.
    """
    named = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    owners = tuple(recipe.parameter_groups)
    check_patterns(recipe.weight_decay, owners, tuple(named))
    groups = []
    for name, values in named.items():
        owner, decay = key_of(name, owners, recipe.weight_decay, recipe.default_decays)
        flat = torch.empty(values.numel(), dtype=values.dtype, device="meta")
        group = Group(
            decay,
            flat,
            torch.empty(values.numel(), dtype=values.dtype, device="meta"),
            owner=owner,
            shapes={name: values.shape},
            views={name: (values, torch.empty_like(values))},
        )
        groups.append(group)
    with torch.random.fork_rng(devices=[]):
        build_optimizer(recipe, groups)

"""Whether a recipe's patterns and optimizers fit a model, said before a run is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tarmac.training.engine.parameter_groups import build_optimizer
from tarmac.training.engine.parameters import Group, check_patterns, key_of

if TYPE_CHECKING:
    from torch import nn

    from tarmac.workloads import Recipe


def check_updates(recipe: Recipe, model: nn.Module) -> None:
    """Make a recipe's optimizers once for a model, and leave both as they are.

    What is flat has no memory here; optimizers of PyTorch's kind see the parameters themselves.
    Nothing is made like a tensor without memory, for which PyTorch imports SymPy: half a second.

    Args:
        recipe: With its optimizers and its patterns of parameter names.
        model: Model on the CPU, whose parameters stay unchanged.

    Raises:
        RequestError: A pattern matches no parameter, nothing is there to train, or an optimizer
            cannot train what it is to train.
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

"""A model's blocks: repeated modules that are sharded, or computed again, one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def find_blocks(model: nn.Module) -> dict[str, nn.Module]:
    """Find the outermost modules that a ``ModuleList`` or ``Sequential`` repeats.

    Blocks are children with parameters whose class at least two children of the container share,
    such as the layers of a transformer. Modules within a block are not blocks.

    Returns:
        The blocks by name, in the model's order; empty if nothing is repeated.
    """
    blocks: dict[str, nn.Module] = {}
    known = set[int]()
    for prefix, container in model.named_modules():
        is_inside = any(prefix == name or prefix.startswith(f"{name}.") for name in blocks)
        if is_inside or not isinstance(container, nn.ModuleList | nn.Sequential):
            continue
        children = {
            f"{prefix}.{name}".lstrip("."): child
            for name, child in container.named_children()
            if any(True for _ in child.parameters())
        }
        counts = Counter(type(child) for child in children.values())
        for name, child in children.items():
            if counts[type(child)] > 1 and id(child) not in known:
                known.add(id(child))
                blocks[name] = child
    return blocks


def checkpoint_activations(model: nn.Module) -> None:
    """Make a model's blocks keep only their inputs for the backward pass, and compute again there.

    Random draws such as dropout's repeat exactly, so the gradients do not change.
    """
    for block in find_blocks(model).values():
        block.forward = partial(_checkpointed, block.forward)


def _checkpointed(forward: Callable[..., Any], *inputs: Any, **named: Any) -> Any:
    if not torch.is_grad_enabled():
        return forward(*inputs, **named)
    return checkpoint(forward, *inputs, use_reentrant=False, **named)

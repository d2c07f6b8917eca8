"""The layers of a model, with their kinds, output shapes and numbers of parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from tarmac.runs import Layer


@contextlib.contextmanager
def recording_layers(model: nn.Module) -> Iterator[list[Layer]]:
    """Yield a list that is filled with the model's layers when the context ends.

    Args:
        model: Model that the caller runs inside the context. The last call sets the shapes.
    """
    parts = {
        name: module
        # A module that is used in several places is listed in each.
        for name, module in model.named_modules(remove_duplicate=False)
        if not any(module.children()) or any(True for _ in module.parameters(recurse=False))
    }
    shapes: dict[nn.Module, tuple[int, ...]] = {}

    def see(module: nn.Module, _inputs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(first, torch.Tensor):
            shapes[module] = tuple(first.shape[1:])

    # Compiled modules take no hooks.
    modules = dict.fromkeys(parts.values())
    plain = [module for module in modules if not isinstance(module, torch.jit.ScriptModule)]
    hooks = [module.register_forward_hook(see) for module in plain]
    layers: list[Layer] = []
    try:
        yield layers
    finally:
        for hook in hooks:
            hook.remove()
    seen: set[nn.Parameter] = set()
    for name, module in parts.items():
        own = {*module.parameters(recurse=False)} - seen
        seen |= own
        layers.append(
            Layer(
                name=name or "model",
                kind=type(module).__name__,
                shape=shapes.get(module),
                parameters=sum(parameter.numel() for parameter in own),
            )
        )

"""The layers of a model: what each is, what it returns, and how many parameters it has."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from tarmac.runs import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


@contextlib.contextmanager
def recording_layers(model: nn.Module) -> Iterator[list[Layer]]:
    """Yield a list that has the model's layers once the context has ended.

    Args:
        model: Is called within; the last call's shapes count.
    """
    parts = {
        name: module
        # Each place of a module that is in several.
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

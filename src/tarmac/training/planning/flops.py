"""Counts the matrix work of a model: what precision and compilation are chosen by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from tarmac.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["count_forward_flops"]

_MATRIX_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def count_forward_flops(model: nn.Module, inputs: torch.Tensor, num_classes: int) -> int:
    """Count the floating-point operations of linear and convolution layers in one forward pass.

    A multiply-add is two operations. The pass also shows whether the model fits its data.

    Args:
        model: Left in training mode, its state unchanged.
        inputs: A preprocessed batch ``[batch, ...]``.
        num_classes: How many logits a sample must get.

    Raises:
        RequestError: The model refuses the batch or returns another shape than logits'.
    """
    counted = 0

    def count(layer: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        nonlocal counted
        weight = layer.get_parameter("weight")
        positions = output.numel() // weight.shape[0]
        counted += 2 * weight.numel() * positions

    hooks = [layer.register_forward_hook(count) for layer in _layers_with_weights(model)]
    try:
        model.eval()
        with torch.no_grad():
            logits = model(inputs)
    except RuntimeError as error:
        raise RequestError(
            f"the model refuses a batch of shape {list(inputs.shape)}: {error}",
            hint="Its first layer must take what the dataset and the preprocessing give.",
        ) from error
    finally:
        model.train()
        for hook in hooks:
            hook.remove()
    expected = (len(inputs), num_classes)
    if tuple(logits.shape) != expected:
        raise RequestError(
            f"the model returns shape {list(logits.shape)} for {len(inputs)} samples, "
            f"expected logits {list(expected)}"
        )
    return counted


def _layers_with_weights(model: nn.Module) -> Iterator[nn.Module]:
    return (layer for layer in model.modules() if isinstance(layer, _MATRIX_LAYERS))

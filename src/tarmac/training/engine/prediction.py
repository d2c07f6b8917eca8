"""What a model says of a batch in evaluation, from one view of each sample or from several."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn

    from tarmac.workloads import TestViews

__all__ = ["predict"]


def predict(model: nn.Module, inputs: torch.Tensor, views: TestViews | None) -> torch.Tensor:
    """Return logits ``[batch, num_classes]`` for a preprocessed batch.

    Args:
        model: In evaluation mode.
        inputs: ``[batch, ...]``.
        views: What the model sees of each sample; None for the sample itself.
    """
    if views is None:
        logits: torch.Tensor = model(inputs)
        return logits
    # Logits in bf16 would round their sum more than any of them.
    (weight, view), *others = views(inputs)
    total: torch.Tensor = model(view).float() * weight
    for weight, view in others:
        total = total.add_(model(view), alpha=weight)
    return total

"""What a model says of a batch, from one view of each sample or from several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    from tarmac.workloads import TestViews


def call_model(model: Callable[..., Any], inputs: Any) -> Any:
    """Return a model's output for a preprocessed batch; a dictionary is keyword arguments."""
    return model(**inputs) if isinstance(inputs, Mapping) else model(inputs)


def predict(model: nn.Module, inputs: Any, views: TestViews | None) -> Any:
    """Return a model's output for a preprocessed batch, such as logits ``[batch, num_classes]``.

    Args:
        model: Model in evaluation mode, on the device of the inputs.
        inputs: ``[batch, ...]``, or a dictionary of such.
        views: What the model sees of each sample; None for the sample itself. Outputs are tensors
            then.
    """
    if views is None:
        return call_model(model, inputs)
    # Logits in bf16 would round their sum more than any of them.
    (weight, view), *others = views(inputs)
    total: torch.Tensor = call_model(model, view).float() * weight
    for weight, view in others:
        total = total.add_(call_model(model, view), alpha=weight)
    return total

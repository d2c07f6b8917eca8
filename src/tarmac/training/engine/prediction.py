"""A model's output for a batch, from one view of each sample or from several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
        inputs: A preprocessed batch ``[batch, ...]``, or a dictionary of such batches.
        views: Views of each sample to average over, for outputs that are tensors; None for the
            sample itself.
    """
    if views is None:
        return call_model(model, inputs)
    # Sum in fp32: in bf16, rounding the sum would lose more than rounding the logits.
    (weight, view), *others = views(inputs)
    total: torch.Tensor = call_model(model, view).float() * weight
    for weight, view in others:
        total = total.add_(call_model(model, view), alpha=weight)
    return total

"""The average of a model's weights over its training: kept beside them, and shown to be scored."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from tarmac.training.engine.update import Update

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tarmac.training.engine.strategy import Strategy


@contextlib.contextmanager
@torch.no_grad()
def showing_average(strategy: Strategy) -> Iterator[None]:
    """Let the first replica and the updated parameters show the average, where one is kept.

    It is copied to where the weights lie, as a CUDA graph reads them there.
    """
    optimizer = strategy.optimizer
    average = optimizer.average if isinstance(optimizer, Update) else None
    if average is None:
        yield
        return
    shown = {
        parameters.values.data_ptr(): parameters
        for parameters in (strategy.replicas[0].parameters, strategy.parameters)
    }
    kept = [parameters.values.clone() for parameters in shown.values()]
    for parameters in shown.values():
        parameters.values.copy_(average)
        parameters.publish()
    try:
        yield
    finally:
        for parameters, values in zip(shown.values(), kept, strict=True):
            parameters.values.copy_(values)
            parameters.publish()

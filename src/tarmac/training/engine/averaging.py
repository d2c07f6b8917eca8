"""The moving average of a model's weights: swapping it in for scoring."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from tarmac.training.engine.strategy import Strategy
from tarmac.training.engine.update import Update


@contextlib.contextmanager
@torch.no_grad()
def showing_average(strategy: Strategy) -> Iterator[None]:
    """Replace the weights of the first replica and the updated parameters with their average.

    The context does nothing if no average is kept. The average is copied into the weights' own
    memory, as CUDA graphs read the weights there.
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

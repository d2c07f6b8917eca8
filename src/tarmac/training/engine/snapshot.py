"""All that a training step changes, kept while steps are tried, and put back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tarmac.training.engine.strategy import Strategy


@contextlib.contextmanager
def put_back(strategy: Strategy) -> Iterator[None]:
    """Put weights, buffers, optimizer state, gradients, totals and generators back at the end.

    Meanwhile they are kept on the CPU, so that no more of the device is taken. What a model keeps
    in Python alone, such as a count of its calls, is not known. All ranks must call it.
    """
    tensors = _changed(strategy)
    kept = [tensor.to("cpu", copy=True) for tensor in tensors]
    optimizer = {
        name: value.detach().to("cpu", copy=True)
        for name, value in strategy.optimizer.state().items()
    }
    draws = strategy.random_states()
    modes = [replica.model.training for replica in strategy.replicas]
    yield
    with torch.no_grad():
        for tensor, value in zip(tensors, kept, strict=True):
            tensor.copy_(value)
        # Some optimizers make their state in their first step.
        strategy.optimizer.load_state(optimizer)
    strategy.parameters.publish()
    for replica, mode in zip(strategy.replicas, modes, strict=True):
        replica.parameters.publish()
        replica.model.train(mode)
    strategy.set_random_states(draws)


def _changed(strategy: Strategy) -> list[torch.Tensor]:
    """Return what steps change beside the optimizer's state, each tensor once."""
    tensors = [*strategy.parameters.state_dict().values()]
    for parameters in (strategy.parameters, *(r.parameters for r in strategy.replicas)):
        tensors += [parameters.values, parameters.reduced]
    for replica in strategy.replicas:
        tensors += [*replica.model.buffers(), replica.totals]
    return list({id(tensor): tensor for tensor in tensors}.values())

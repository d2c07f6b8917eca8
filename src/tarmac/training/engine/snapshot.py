"""A snapshot of all state that a training step changes, to restore after trial steps."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from tarmac.training.engine.strategy import Strategy


@contextlib.contextmanager
def put_back(strategy: Strategy) -> Iterator[None]:
    """Restore weights, buffers, optimizer state, gradients, totals and generators at the end.

    The snapshot is kept on the CPU, so that it takes no memory of the device. State that a model
    keeps only in Python, such as a count of its calls, is not restored. All ranks must call this
    function.
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
        # Some optimizers create their state in their first step, so load it by name.
        strategy.optimizer.load_state(optimizer)
    strategy.parameters.publish()
    for replica, mode in zip(strategy.replicas, modes, strict=True):
        replica.parameters.publish()
        replica.model.train(mode)
    strategy.set_random_states(draws)


def _changed(strategy: Strategy) -> list[torch.Tensor]:
    """Return the tensors beside the optimizer's state that steps change, each once."""
    tensors = [*strategy.parameters.state_dict().values()]
    for parameters in (strategy.parameters, *(r.parameters for r in strategy.replicas)):
        tensors += [parameters.values, parameters.reduced]
    for replica in strategy.replicas:
        tensors += [*replica.model.buffers(), replica.totals]
    return list({id(tensor): tensor for tensor in tensors}.values())

"""mlp: the networks of a published genetic search, for any image dataset.

One to four hidden layers of equal width, each with an activation and dropout 0.2, and a softmax
output; Glorot-uniform weights and zero biases; batches of 128, of 64 on CIFAR-10; inputs divided by
255, digits by 16. Source: harvitronix/neural-network-genetic-algorithm at 66ce11a, train.py and
main.py. The optimizers' values are Keras 2.0.2's defaults, keras/optimizers.py, written out because
later defaults differ. The source trains until the validation loss has not fallen for 5 epochs.
Here `epochs` is 20; ``--patience 5`` stops like the source.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from torch import nn

from tarmac.errors import RequestError, unknown_name
from tarmac.workloads.base import Recipe, Scale, Workload
from tarmac.workloads.init import glorot_uniform_
from tarmac.workloads.optimizers import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    Nadam,
    Optimizer,
    RMSprop,
)

_ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
}

_OPTIMIZERS: Mapping[str, Optimizer] = MappingProxyType(
    {
        "rmsprop": RMSprop(learning_rate=1e-3, rho=0.9, eps=1e-8),
        "adam": Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
        "sgd": SGD(learning_rate=1e-2, momentum=0.0, nesterov=False),
        "adagrad": Adagrad(learning_rate=1e-2, eps=1e-8),
        "adadelta": Adadelta(learning_rate=1.0, rho=0.95, eps=1e-8),
        "adamax": Adamax(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8),
        "nadam": Nadam(learning_rate=2e-3, beta1=0.9, beta2=0.999, eps=1e-8, momentum_decay=0.004),
    }
)


def model(
    *,
    sample_shape: tuple[int, ...],
    num_classes: int,
    layers: int = 2,
    neurons: int = 512,
    activation: str = "relu",
    dropout: float = 0.2,
) -> nn.Module:
    """Build a network of ``layers`` hidden layers for a dataset's samples and classes.

    Raises:
        RequestError: ``layers`` or ``neurons`` is below 1, or the activation is unknown.
    """
    for name, number in (("layers", layers), ("neurons", neurons)):
        if number < 1:
            raise RequestError(f"{name} is {number}, expected at least 1")
    if activation not in _ACTIVATIONS:
        raise unknown_name("activation", activation, dict.fromkeys(_ACTIVATIONS, ""))
    parts: list[nn.Module] = [nn.Flatten()]
    width = math.prod(sample_shape)
    for _ in range(layers):
        parts += [nn.Linear(width, neurons), _ACTIVATIONS[activation](), nn.Dropout(dropout)]
        width = neurons
    return glorot_uniform_(nn.Sequential(*parts, nn.Linear(width, num_classes)))


_recipe = Recipe(optimizer=_OPTIMIZERS["adam"], batch_size=128, epochs=20)

workload = Workload(
    name="mlp",
    summary="the published genetic search's networks, for any image dataset",
    dataset="mnist",
    model=model,
    recipe=_recipe,
    recipes={
        "digits": dataclasses.replace(_recipe, preprocess=Scale(factor=1 / 16)),
        "cifar10": dataclasses.replace(_recipe, batch_size=64),
    },
    optimizers=_OPTIMIZERS,
)

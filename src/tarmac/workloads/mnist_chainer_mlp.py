"""mnist-chainer-mlp: the network of Chainer's ``examples/mnist/train_mnist.py``.

784-1000-1000-10, ReLU, no dropout; weights normal with variance 1/fan_in and zero biases (Chainer's
LeCunNormal default); Adam with alpha 0.001, beta1 0.9, beta2 0.999, eps 1e-8; batches of 100,
20 epochs, inputs in [0, 1]. All numbers: chainer/chainer at tag v7.8.1, that file,
chainer/optimizers/adam.py and chainer/links/connection/linear.py.
"""

from __future__ import annotations

from torch import nn

from tarmac.workloads.base import Recipe, Workload
from tarmac.workloads.expectation import Expectation
from tarmac.workloads.optimizers import Adam


def model(hidden: int = 1000) -> nn.Module:
    """Build 784-hidden-hidden-10."""
    network = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 10),
    )
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
            nn.init.zeros_(layer.bias)
    return network


workload = Workload(
    name="mnist-chainer-mlp",
    summary="Chainer's train_mnist: 784-1000-1000-10",
    dataset="mnist",
    model=model,
    recipe=Recipe(
        optimizer=Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8),
        batch_size=100,
        epochs=20,
    ),
    expectation=Expectation(at_least=0.980, source="Chainer's example, run for 20 epochs"),
    took=("0.98 s on an NVIDIA H100, 2026-11-26",),
)

"""mnist-cnn: the network of Keras 2.0's ``examples/mnist_cnn.py``.

Convolution 3x3x32, convolution 3x3x64, max-pool 2, dropout 0.25, dense 128, dropout 0.5, dense 10,
ReLU throughout, no padding, 1,199,882 parameters, Glorot-uniform weights and zero biases; Adadelta
with lr 1.0, rho 0.95, eps 1e-8 (TensorFlow 2 changed that lr to 0.001, with which the example
reaches only 84 %: keras-team/keras#13815); batches of 128, 12 epochs, inputs divided by 255.
All numbers: keras-team/keras at tags 2.0.x, examples/mnist_cnn.py and keras/optimizers.py.

Expected: the example documents 99.25 % after 12 epochs.
Measured: 99.06 % for one seed, in 229 s on two cores of a Xeon with AMX (2026-11-21).
"""

from __future__ import annotations

from torch import nn

from tarmac.workloads.base import Recipe, Workload
from tarmac.workloads.expectation import Expectation
from tarmac.workloads.init import glorot_uniform_
from tarmac.workloads.optimizers import Adadelta


def model(dropout_conv: float = 0.25, dropout_dense: float = 0.5) -> nn.Module:
    """Build the network for one channel of 28x28."""
    return glorot_uniform_(
        nn.Sequential(
            nn.Unflatten(1, (1, 28)),
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout(dropout_conv),
            nn.Flatten(),
            nn.Linear(12 * 12 * 64, 128),
            nn.ReLU(),
            nn.Dropout(dropout_dense),
            nn.Linear(128, 10),
        )
    )


workload = Workload(
    name="mnist-cnn",
    summary="Keras's mnist_cnn: two convolutions, max-pool, dense 128",
    dataset="mnist",
    model=model,
    recipe=Recipe(
        optimizer=Adadelta(learning_rate=1.0, rho=0.95, eps=1e-8),
        batch_size=128,
        epochs=12,
    ),
    expectation=Expectation(at_least=0.990, source="Keras documents 0.9925"),
    took=(
        "229 s on two cores of a Xeon with AMX, 2026-11-21",
        "2.63 s on an NVIDIA H100, 2026-11-26",
    ),
)

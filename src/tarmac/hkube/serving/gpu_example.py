"""The network of kube-HPC/gpu-algorithm, which is served if no workload is named.

784-512-10, ReLU, dropout 0.2, 407,050 parameters, Glorot-uniform weights and zero biases; Adam with
Keras's values; batches of 32, 10 epochs, inputs divided by 255; the first 1000 training images
unless more are asked for, tested on the first 1000 test images.
All numbers: kube-HPC/gpu-algorithm at 5ef663a, algorithm/keras.py; Adam's values and the batch size
are defaults of TensorFlow 1.13.1, tensorflow/python/keras/optimizers.py and engine/training.py.
"""

from __future__ import annotations

import dataclasses
import functools

from torch import nn

from tarmac import data
from tarmac.workloads import Adam, Recipe, Workload

# The example's defaults for values that the input does not set.
TRAIN_SIZE = 1000
OUTPUT = "/training_1"

_TEST_SIZE = 1000

# As in the example: equal results on every node, and test images scored after each epoch.
OPTIONS = {"precision": "fp32", "validation_split": "own", "validation_size": _TEST_SIZE}


@functools.cache
def dataset() -> data.Dataset:
    """Return MNIST with the first 1000 test images, and training images in their order.

    The test images are scored after each epoch, as the example's ``validation_data`` in Keras. The
    scores select nothing: the last epoch's weights are the result.
    """
    mnist = data.load("mnist")
    images, classes = mnist.test.arrays
    test = data.Split(images[:_TEST_SIZE], classes[:_TEST_SIZE])
    # `train_size` takes the first images instead of random ones.
    train = dataclasses.replace(mnist.train, is_series=True)
    return dataclasses.replace(mnist, train=train, test=test, validation=test)


def model(hidden: int = 512, dropout: float = 0.2) -> nn.Module:
    """Build the 784-hidden-10 network."""
    first, last = nn.Linear(784, hidden), nn.Linear(hidden, 10)
    for layer in (first, last):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Dropout(dropout), last)


workload = Workload(
    name="mnist-dense",
    summary="HKube's GPU example: 784-512-10 with dropout",
    dataset=dataset,
    model=model,
    recipe=Recipe(
        optimizer=Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-7),
        batch_size=32,
        epochs=10,
    ),
)

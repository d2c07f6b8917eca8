"""A task of `trainings.py` by Keras 3 on TensorFlow in fp32. Arguments: task, seed. Prints JSON."""

from __future__ import annotations

import json
import os
import sys
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from _training_tasks import CHARACTERS, HEADS, LAYERS, LENGTH, TASKS, WIDTH
from keras import layers

task, seed = TASKS[sys.argv[1]], int(sys.argv[2])
keras.utils.set_random_seed(seed)


def table() -> keras.Model:
    """Return the perceptron."""
    return keras.Sequential(
        [
            layers.Input((32,)),
            layers.Dense(256, activation="relu"),
            layers.Dense(256, activation="relu"),
            layers.Dense(1),
        ]
    )


def resnet18() -> keras.Model:
    """Return the residual network; images are ``[batch, height, width, channel]`` here."""

    def convolve(x, outputs, size, stride):
        x = layers.Conv2D(outputs, size, stride, padding="same", use_bias=False)(x)
        # Keras's momentum is one minus PyTorch's.
        return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)

    inputs = layers.Input((32, 32, 3))
    x = layers.ReLU()(convolve(inputs, 64, 3, 1))
    for outputs, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            y = layers.ReLU()(convolve(x, outputs, 3, stride))
            y = convolve(y, outputs, 3, 1)
            short = x if x.shape[-1] == outputs else convolve(x, outputs, 1, stride)
            x = layers.ReLU()(layers.add([y, short]))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def gpt() -> keras.Model:
    """Return the transformer."""
    small = keras.initializers.RandomNormal(stddev=0.02)
    deep = keras.initializers.RandomNormal(stddev=0.02 / (2 * LAYERS) ** 0.5)

    class Attention(layers.Layer):
        """One product for queries, keys and values, as in the others' networks."""

        def __init__(self) -> None:
            super().__init__()
            self.all = layers.Dense(3 * WIDTH, use_bias=False, kernel_initializer=small)
            self.out = layers.Dense(WIDTH, use_bias=False, kernel_initializer=deep)

        def call(self, x):
            """Return ``[batch, length, width]``."""
            parts = keras.ops.reshape(self.all(x), (-1, LENGTH, 3, HEADS, WIDTH // HEADS))
            q, k, v = (parts[:, :, index] for index in range(3))
            heads = keras.ops.dot_product_attention(q, k, v, is_causal=True)
            return self.out(keras.ops.reshape(heads, (-1, LENGTH, WIDTH)))

    class Positions(layers.Layer):
        """Adds what stands for each position."""

        def build(self, _shape) -> None:
            """Make the weights."""
            self.table = self.add_weight(shape=(LENGTH, WIDTH), initializer=small)

        def call(self, x):
            """Return ``[batch, length, width]``."""
            return x + self.table

    class Head(layers.Layer):
        """The embedding, once more as the last layer."""

        def __init__(self, embedding) -> None:
            super().__init__()
            self.embedding = embedding

        def call(self, x):
            """Return logits."""
            return keras.ops.matmul(x, keras.ops.transpose(self.embedding.embeddings))

    inputs = layers.Input((LENGTH,), dtype="int32")
    tokens = layers.Embedding(CHARACTERS, WIDTH, embeddings_initializer=small)
    x = Positions()(tokens(inputs))
    for _ in range(LAYERS):
        x = x + Attention()(layers.LayerNormalization(center=False, epsilon=1e-5)(x))
        y = layers.LayerNormalization(center=False, epsilon=1e-5)(x)
        y = layers.Dense(4 * WIDTH, "gelu", use_bias=False, kernel_initializer=small)(y)
        x = x + layers.Dense(WIDTH, use_bias=False, kernel_initializer=deep)(y)
    x = layers.LayerNormalization(center=False, epsilon=1e-5)(x)
    return keras.Model(inputs, Head(tokens)(x))


class Clock(keras.callbacks.Callback):
    """Times each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        """Start."""
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        """Stop."""
        self.seconds.append(time.perf_counter() - self.start)


x, y, x_test, y_test = (a.numpy() for a in task.tensors())
if task.kind == "images":
    x, x_test = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, x_test))
network = {"gpt": gpt, "resnet18": resnet18, "table": table}[sys.argv[1]]()
if task.adamw:
    optimizer = keras.optimizers.AdamW(
        task.learning_rate,
        weight_decay=task.weight_decay,
        beta_1=0.9,
        beta_2=0.99,
        epsilon=1e-8,
        global_clipnorm=task.clip_norm or None,
    )
else:
    optimizer = keras.optimizers.SGD(task.learning_rate, momentum=0.9, nesterov=True)
network.compile(
    optimizer=optimizer,
    loss="mse"
    if task.kind == "table"
    else keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
clock = Clock()
network.fit(x, y, batch_size=task.batch_size, epochs=task.epochs, verbose=0, callbacks=[clock])
print(
    json.dumps(
        {
            "epoch_s": clock.seconds,
            "test_loss": float(network.evaluate(x_test, y_test, batch_size=100, verbose=0)),
            "parameters": int(sum(np.prod(w.shape) for w in network.trainable_weights)),
            "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
        }
    )
)

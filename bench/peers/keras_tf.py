"""mnist-mlp by Keras 3 on TensorFlow, as Keras's own example writes it. Prints one JSON line."""

from __future__ import annotations

import json
import os
import resource
import sys
import time

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import tensorflow as tf
from _mnist import load

epochs, seed = int(sys.argv[1]), int(sys.argv[2])
keras.utils.set_random_seed(seed)
(x_train, y_train), (x_test, y_test) = load()
x_train = x_train.reshape(-1, 784).astype("float32") / 255
x_test = x_test.reshape(-1, 784).astype("float32") / 255

model = keras.Sequential(
    [
        keras.layers.Input((784,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10),
    ]
)
model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=keras.optimizers.RMSprop(learning_rate=1e-3, rho=0.9, epsilon=1e-8),
    metrics=["accuracy"],
)


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


clock = Clock()
model.fit(x_train, y_train, batch_size=128, epochs=epochs, verbose=0, callbacks=[clock])
_, accuracy = model.evaluate(x_test, y_test, verbose=0)
print(
    json.dumps(
        {
            "epoch_s": clock.seconds,
            "test_accuracy": float(accuracy),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
        }
    )
)

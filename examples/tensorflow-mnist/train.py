"""A convolutional network on MNIST, by Keras on TensorFlow.

Usage: python train.py data.npz
"""

import os
import sys

import keras
import numpy as np
import tensorflow as tf

has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and not tf.config.list_physical_devices("GPU"):
    sys.exit(f"was given a GPU, and sees none: tarmac check tensorflow --python {sys.executable}")
keras.utils.set_random_seed(0)
data = np.load(sys.argv[1])
train, test = (data[part + "_images"][..., None] for part in ("train", "test"))

model = keras.Sequential(
    [
        keras.Input(train.shape[1:]),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=0.001),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
# A line per epoch.
model.fit(train, data["train_labels"], batch_size=100, epochs=int(data["epochs"]), verbose=2)
_, accuracy = model.evaluate(test, data["test_labels"], batch_size=1000, verbose=0)

print(f"TensorFlow {tf.__version__} on {model.trainable_variables[0].value.device}")
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")

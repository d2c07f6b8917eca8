"""A convolutional network on MNIST, by Keras on TensorFlow.

Usage: python train.py data.npz
"""

import os
import sys

import keras
import numpy as np
import tensorflow as tf

# A replica on each GPU; REPLICAS=2 tries that on a CPU.
replicas = int(os.environ.get("REPLICAS", "1"))
gpus = tf.config.list_physical_devices("GPU")
has_gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1")
if has_gpu and not gpus:
    sys.exit(f"was given a GPU, and sees none: tarmac check tensorflow --python {sys.executable}")
if not gpus:
    (cpu,) = tf.config.list_physical_devices("CPU")
    shares = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
    tf.config.set_logical_device_configuration(cpu, shares)
devices = tf.config.list_logical_devices("GPU" if gpus else "CPU")
strategy = tf.distribute.get_strategy()
if len(devices) > 1:
    strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
keras.utils.set_random_seed(0)
data = np.load(sys.argv[1])
train, test = (data[part + "_images"][..., None] for part in ("train", "test"))

with strategy.scope():
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
# Keras fails where replicas share the first batch unevenly.
batch_size = 100 // len(devices) * len(devices)
# A line per epoch.
model.fit(train, data["train_labels"], batch_size, epochs=int(data["epochs"]), verbose=2)
# By one device, whatever the number of samples.
logits = np.concatenate([model(test[n : n + 1000]) for n in range(0, len(test), 1000)])
accuracy = (logits.argmax(axis=1) == data["test_labels"]).mean()

print(f"TensorFlow {tf.__version__} on {', '.join(device.name for device in devices)}")
if accuracy < data["floor"]:
    sys.exit(f"test accuracy {accuracy:.4f}, expected at least {data['floor']}")
print(f"test accuracy {accuracy:.4f}")

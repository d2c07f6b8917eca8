"""Computes with Keras on every device that it sees, and writes the result.

    python keras_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result.
"""

import os

from harness import convolve, judged, relative, run, trained


def main(probe):
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if probe.lacks("keras", backend):
        return
    probe.result["build"] = {"backend": backend}
    # A probed GPU may be in use, so do not reserve all or most of its memory.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with probe.importing():
        import keras
        import numpy as np

    probe.result["version"] = keras.__version__
    probe.stage("devices")
    gpus = gpu_names(backend)
    for name in gpus + ["cpu"]:
        if probe.wants(name):
            with keras.device(name.replace("cuda", "gpu")):
                compute(probe, np, keras, name)
    probe.stage("done")


def gpu_names(backend):
    if backend == "tensorflow":
        import tensorflow as tf

        count = len(tf.config.list_physical_devices("GPU"))
    elif backend == "torch":
        import torch

        count = torch.cuda.device_count()
    else:
        import jax

        count = sum(device.platform != "cpu" for device in jax.devices())
    return ["cuda:%d" % index for index in range(count)]


def compute(probe, np, keras, name):
    entry = probe.device(name, name != "cpu")
    rng = np.random.RandomState(0)
    probe.stage("product on %s" % name)
    a, b = (rng.randn(256, 256).astype("float32") for _ in range(2))
    there = keras.ops.convert_to_tensor(a)
    product = keras.ops.matmul(there, keras.ops.convert_to_tensor(b))
    entry["placement"] = str(getattr(product, "device", ""))
    probe.ran(entry, "convert_to_tensor", getattr(there, "device", ""))
    probe.ran(entry, "matmul", entry["placement"])
    expected = a.astype("float64") @ b.astype("float64")
    entry["matmul"] = judged(relative(keras.ops.convert_to_numpy(product), expected), 5e-3)
    probe.stage("convolution on %s" % name)
    images = rng.randn(4, 16, 16, 8).astype("float32")
    kernels = rng.randn(3, 3, 8, 8).astype("float32")
    convolved = keras.ops.conv(
        keras.ops.convert_to_tensor(images),
        keras.ops.convert_to_tensor(kernels),
        padding="valid",
        data_format="channels_last",
    )
    probe.ran(entry, "conv", getattr(convolved, "device", ""))
    expected = convolve(np, images, kernels)
    entry["convolution"] = judged(relative(keras.ops.convert_to_numpy(convolved), expected), 5e-3)
    probe.stage("training on %s" % name)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(4)])
    model.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    inputs = rng.randn(64, 32).astype("float32")
    targets = rng.randint(0, 4, 64)
    losses = [float(model.train_on_batch(inputs, targets)) for _ in range(3)]
    weight = model.weights[0].value
    probe.ran(entry, "train_on_batch", getattr(weight, "device", ""))
    entry["training"] = trained(losses)


if __name__ == "__main__":
    run("keras", main)

"""Makes Keras compute on every device it sees, and writes down what came of it.

    python keras_probe.py RESULT quick|normal|deep [DEVICE ...]

Stands alone: it runs under whatever interpreter holds the framework. RESULT is rewritten after
every stage, so that a crash or a hang leaves the stage it came in.
"""

import faulthandler
import importlib.util
import json
import os
import sys
import time
import traceback
import warnings

RESULT, DEPTH, WANTED = sys.argv[1], sys.argv[2], sys.argv[3:]

result = {"framework": "keras", "stage": "import", "devices": [], "notes": [], "error": None}


def stage(name):
    result["stage"] = name
    with open(RESULT + ".part", "w") as file:
        json.dump(result, file)
    os.replace(RESULT + ".part", RESULT)


def relative(ours, reference):
    return float(abs(ours - reference).max() / abs(reference).max())


def judged(error, tolerance):
    # A NaN is no smaller than anything.
    return {"error": error, "tolerance": tolerance, "ok": bool(error <= tolerance)}


def main():
    result["wanted"] = WANTED
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if any(importlib.util.find_spec(name) is None for name in ("keras", backend)):
        result["absent"] = True
        return
    result["build"] = {"backend": backend}
    stage("import")
    # What is probed may be in use: all or most of its memory would be too much.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    start = time.perf_counter()
    import keras
    import numpy as np

    result["import_s"] = time.perf_counter() - start
    result["version"] = keras.__version__
    stage("devices")
    gpus = gpu_names(backend)
    for name in gpus + ["cpu"]:
        if not WANTED or name in WANTED or name.split(":")[0] in WANTED:
            with keras.device(name.replace("cuda", "gpu")):
                probe(np, keras, name)
    stage("done")


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


def probe(np, keras, name):
    found = {"name": name, "kind": "cpu" if name == "cpu" else "gpu"}
    result["devices"].append(found)
    rng = np.random.RandomState(0)
    stage("product on %s" % name)
    a, b = (rng.randn(256, 256).astype("float32") for _ in range(2))
    product = keras.ops.matmul(keras.ops.convert_to_tensor(a), keras.ops.convert_to_tensor(b))
    found["placement"] = str(getattr(product, "device", ""))
    expected = a.astype("float64") @ b.astype("float64")
    found["matmul"] = judged(relative(keras.ops.convert_to_numpy(product), expected), 5e-3)
    stage("convolution on %s" % name)
    images = rng.randn(4, 16, 16, 8).astype("float32")
    kernels = rng.randn(3, 3, 8, 8).astype("float32")
    convolved = keras.ops.conv(
        keras.ops.convert_to_tensor(images),
        keras.ops.convert_to_tensor(kernels),
        padding="valid",
        data_format="channels_last",
    )
    expected = conv_reference(np, images, kernels)
    found["convolution"] = judged(relative(keras.ops.convert_to_numpy(convolved), expected), 5e-3)
    stage("training on %s" % name)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(4)])
    model.compile(
        optimizer=keras.optimizers.SGD(0.5),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    inputs = rng.randn(64, 32).astype("float32")
    targets = rng.randint(0, 4, 64)
    losses = [float(model.train_on_batch(inputs, targets)) for _ in range(3)]
    found["training"] = {"losses": losses, "ok": losses[0] > losses[1] > losses[2]}


def conv_reference(np, images, kernels):
    """Convolve in float64: images ``[n, h, w, c]``, kernels ``[kh, kw, c, out]``, no padding."""
    height, width = images.shape[1] - 2, images.shape[2] - 2
    out = np.zeros((len(images), height, width, kernels.shape[3]))
    for row in range(3):
        for column in range(3):
            part = images[:, row : row + height, column : column + width]
            out += part.astype(np.float64) @ kernels[row, column].astype(np.float64)
    return out


def libraries():
    """Return the CUDA libraries that are loaded, by where they are."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(None, 5)[5].strip() for line in maps if line.count("/") > 1}
    except OSError:
        return []
    names = ("libcuda.so", "libcudart", "libcublas", "libcudnn", "libnccl", "libnvidia-ml")
    return sorted(path for path in paths if os.path.basename(path).startswith(names))


if "TARMAC_PROBE_LIMIT_S" in os.environ:
    # Says where it hangs, and ends, should nobody be left to end it.
    faulthandler.dump_traceback_later(float(os.environ["TARMAC_PROBE_LIMIT_S"]) + 5, exit=True)

if __name__ == "__main__":
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            main()
        except BaseException as error:
            result["error"] = {
                "type": type(error).__name__,
                "message": str(error),
                "traceback": traceback.format_exc(),
            }
    result["notes"] += [str(warning.message) for warning in caught]
    result["libraries"] = libraries()
    stage(result["stage"])
    sys.exit(1 if result["error"] else 0)

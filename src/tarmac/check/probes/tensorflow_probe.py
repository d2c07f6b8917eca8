"""Makes TensorFlow compute on every device it sees, and writes down what came of it.

    python tensorflow_probe.py RESULT quick|normal|deep [DEVICE ...]

Stands alone: it runs under whatever interpreter holds the framework. RESULT is rewritten after
every stage, so that a crash or a hang leaves the stage it came in.
"""

import contextlib
import faulthandler
import importlib.util
import json
import os
import sys
import time
import traceback
import warnings

RESULT, DEPTH, WANTED = sys.argv[1], sys.argv[2], sys.argv[3:]
# Seconds that each measured rate may take, and the size of a product that fills a GPU or a CPU.
SECONDS = {"quick": 0.0, "normal": 0.15, "deep": 1.0}[DEPTH]
SIZE = {"cpu": 768 if DEPTH == "normal" else 2048, "cuda": 8192}

result = {"framework": "tensorflow", "stage": "import", "devices": [], "notes": [], "error": None}


def stage(name):
    result["stage"] = name
    with open(RESULT + ".part", "w") as file:
        json.dump(result, file)
    os.replace(RESULT + ".part", RESULT)


@contextlib.contextmanager
def turn():
    """Measure while no other probe does, where several run together."""
    if "TARMAC_PROBE_TURN" not in os.environ:
        yield
        return
    import fcntl

    with open(os.environ["TARMAC_PROBE_TURN"]) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def relative(ours, reference):
    return float(abs(ours - reference).max() / abs(reference).max())


def judged(error, tolerance):
    # A NaN is no smaller than anything.
    return {"error": error, "tolerance": tolerance, "ok": bool(error <= tolerance)}


def rate(work, function):
    """Return work per second of the fastest of several runs."""
    function()
    best, end = 0.0, time.perf_counter() + SECONDS
    while True:
        start = time.perf_counter()
        for _ in range(3):
            function()
        now = time.perf_counter()
        best = max(best, 3 * work / (now - start))
        if now > end:
            return best


def conv_reference(np, images, kernels):
    """Convolve in float64: images ``[n, h, w, c]``, kernels ``[kh, kw, c, out]``, no padding."""
    height, width = images.shape[1] - 2, images.shape[2] - 2
    out = np.zeros((len(images), height, width, kernels.shape[3]))
    for row in range(3):
        for column in range(3):
            part = images[:, row : row + height, column : column + width]
            out += part.astype(np.float64) @ kernels[row, column].astype(np.float64)
    return out


def probe(np, tf, device):
    on_gpu = device.device_type != "CPU"
    name = "%s:%s" % (device.device_type, device.name.rsplit(":", 1)[1])
    found = {"name": "cuda:" + name[4:] if on_gpu else "cpu", "kind": "gpu" if on_gpu else "cpu"}
    result["devices"].append(found)
    if on_gpu:
        details = tf.config.experimental.get_device_details(device)
        found["chip"] = details.get("device_name")
        found["capability"] = details.get("compute_capability")
    rng = np.random.RandomState(0)
    with tf.device(name):
        stage("product on %s" % found["name"])
        a, b = (rng.randn(256, 256).astype("float32") for _ in range(2))
        product = tf.linalg.matmul(tf.constant(a), tf.constant(b))
        found["placement"] = product.device
        expected = a.astype("float64") @ b.astype("float64")
        found["matmul"] = judged(relative(product.numpy(), expected), 1e-3)
        stage("convolution on %s" % found["name"])
        images = rng.randn(4, 16, 16, 8).astype("float32")
        kernels = rng.randn(3, 3, 8, 8).astype("float32")
        convolved = tf.nn.conv2d(tf.constant(images), tf.constant(kernels), 1, "VALID")
        expected = conv_reference(np, images, kernels)
        found["convolution"] = judged(relative(convolved.numpy(), expected), 1e-3)
        stage("training on %s" % found["name"])
        inputs = tf.constant(rng.randn(64, 32).astype("float32"))
        targets = tf.constant(rng.randint(0, 4, 64))
        weights = [
            tf.Variable(rng.randn(*shape).astype("float32") / 6) for shape in ((32, 64), (64, 4))
        ]
        losses = []
        for _ in range(3):
            with tf.GradientTape() as tape:
                logits = tf.nn.relu(inputs @ weights[0]) @ weights[1]
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
                )
            for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                weight.assign_sub(0.5 * gradient)
            losses.append(float(loss))
        found["training"] = {"losses": losses, "ok": losses[0] > losses[1] > losses[2]}
        if SECONDS:
            with turn():
                measure(np, tf, found, on_gpu)


def measure(np, tf, found, on_gpu):
    size = SIZE["cuda" if on_gpu else "cpu"]
    found["flops"] = {}
    types = {"fp32": tf.float32, "bf16": tf.bfloat16}
    if on_gpu:
        types["fp16"] = tf.float16
        if tuple(found["capability"] or (8, 0)) < (8, 0):
            # Emulated before Ampere: seconds for each product.
            del types["bf16"]
    for name, dtype in types.items():
        stage("%s rate on %s" % (name, found["name"]))
        a, b = (tf.cast(tf.random.normal((size, size)), dtype) for _ in range(2))
        # Reading one number waits for the product.
        found["flops"][name] = rate(2.0 * size**3, lambda a=a, b=b: (a @ b)[0, 0].numpy())
    stage("copies on %s" % found["name"])
    count = (1 << 28) if on_gpu else (1 << 25)
    here = tf.zeros(count // 4)

    def add():
        return (here + 1.0)[0].numpy()

    # An addition reads and writes, as a copy does.
    found["copies"] = {"memory": rate(2.0 * count, add)}
    if on_gpu:
        there = np.ones(count // 4, "float32")

        def send():
            return tf.constant(there)[0].numpy()

        # Of ordinary memory, which is slower than pinned memory.
        found["copies"]["pinned"] = False
        found["copies"]["to_device"] = rate(count, send)
        found["copies"]["from_device"] = rate(count, here.numpy)
        stage("allocation on %s" % found["name"])
        # No more, however deep: TensorFlow does not give memory back to probes beside this one.
        taken = 1 << 30
        tf.zeros(taken, tf.uint8)[0].numpy()
        found["allocated_bytes"] = taken


def main():
    result["wanted"] = WANTED
    if importlib.util.find_spec("tensorflow") is None:
        result["absent"] = True
        return
    stage("import")
    start = time.perf_counter()
    import numpy as np
    import tensorflow as tf

    result["import_s"] = time.perf_counter() - start
    result["version"] = tf.__version__
    stage("devices")
    build = tf.sysconfig.get_build_info()
    result["build"] = {
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "hip": build.get("rocm_version"),
        "architectures": list(build.get("cuda_compute_capabilities") or []),
        "with_cuda": tf.test.is_built_with_cuda(),
    }
    # In fp32, not in TF32 of ten bits, so that numbers and rates are fp32's.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    devices = tf.config.list_physical_devices("GPU")
    for device in devices:
        tf.config.experimental.set_memory_growth(device, True)
    for device in devices + tf.config.list_physical_devices("CPU"):
        index = device.name.rsplit(":", 1)[1]
        name = "cuda:" + index if device.device_type == "GPU" else "cpu"
        if not WANTED or name in WANTED or name.split(":")[0] in WANTED:
            probe(np, tf, device)
    stage("done")


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

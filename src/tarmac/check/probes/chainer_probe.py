"""Makes Chainer compute on every device it sees, and writes down what came of it.

    python chainer_probe.py RESULT quick|normal|deep [DEVICE ...]

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

result = {"framework": "chainer", "stage": "import", "devices": [], "notes": [], "error": None}


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
    """Convolve in float64: images ``[n, c, h, w]``, kernels ``[out, c, 3, 3]``, no padding."""
    height, width = images.shape[2] - 2, images.shape[3] - 2
    out = np.zeros((len(images), len(kernels), height, width))
    for row in range(3):
        for column in range(3):
            part = images[:, :, row : row + height, column : column + width].astype(np.float64)
            kernel = kernels[:, :, row, column].astype(np.float64)
            out += np.einsum("nchw,oc->nohw", part, kernel)
    return out


def probe(np, chainer, xp, name):
    import chainer.functions as F

    on_gpu = name != "cpu"
    found = {"name": name, "kind": "gpu" if on_gpu else "cpu"}
    result["devices"].append(found)
    if on_gpu:
        found["free_bytes"], found["memory_bytes"] = xp.cuda.runtime.memGetInfo()
        properties = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)
        found["chip"] = properties["name"].decode()
        found["capability"] = [properties["major"], properties["minor"]]
    rng = np.random.RandomState(0)

    def put(*shape):
        array = rng.randn(*shape).astype("float32")
        return array, xp.asarray(array)

    def back(variable):
        return chainer.backends.cuda.to_cpu(variable.array)

    stage("product on %s" % name)
    (a, a_there), (b, b_there) = put(256, 256), put(256, 256)
    product = F.matmul(a_there, b_there)
    found["placement"] = type(product.array).__module__.split(".")[0]
    expected = a.astype("float64") @ b.astype("float64")
    found["matmul"] = judged(relative(back(product), expected), 5e-3)
    stage("convolution on %s" % name)
    (images, images_there), (kernels, kernels_there) = put(4, 8, 16, 16), put(8, 8, 3, 3)
    convolved = F.convolution_2d(images_there, kernels_there)
    expected = conv_reference(np, images, kernels)
    found["convolution"] = judged(relative(back(convolved), expected), 5e-3)
    stage("training on %s" % name)
    inputs = put(64, 32)[1]
    targets = xp.asarray(rng.randint(0, 4, 64).astype("int32"))
    weights = [chainer.Parameter(put(*shape)[1] / 6) for shape in ((32, 64), (64, 4))]
    losses = []
    for _ in range(3):
        loss = F.softmax_cross_entropy(
            F.matmul(F.relu(F.matmul(inputs, weights[0])), weights[1]), targets
        )
        for weight in weights:
            weight.cleargrad()
        loss.backward()
        for weight in weights:
            weight.array -= 0.5 * weight.grad
        losses.append(float(back(loss)))
    found["training"] = {"losses": losses, "ok": losses[0] > losses[1] > losses[2]}
    if SECONDS:
        with turn():
            measure(np, xp, found, put)


def measure(np, xp, found, put):
    on_gpu, name = found["kind"] == "gpu", found["name"]
    size = SIZE["cuda" if on_gpu else "cpu"]
    found["flops"] = {}
    for kind, dtype in [("fp32", "float32")] + ([("fp16", "float16")] if on_gpu else []):
        stage("%s rate on %s" % (kind, name))
        a, b = (put(size, size)[1].astype(dtype) for _ in range(2))
        # Reading one number waits for the product.
        found["flops"][kind] = rate(2.0 * size**3, lambda a=a, b=b: float(xp.matmul(a, b)[0, 0]))
    stage("copies on %s" % name)
    count = (1 << 28) if on_gpu else (1 << 25)
    here, there = xp.zeros(count // 4, "float32"), xp.zeros(count // 4, "float32")

    def copy():
        there[...] = here
        # Waits for the copy.
        float(there[0])

    found["copies"] = {"memory": rate(2.0 * count, copy)}
    if on_gpu:
        host = np.ones(count // 4, "float32")
        # Of ordinary memory, which is slower than pinned memory.
        found["copies"]["pinned"] = False

        def send():
            here.set(host)
            float(here[0])

        found["copies"]["to_device"] = rate(count, send)
        found["copies"]["from_device"] = rate(count, here.get)
        stage("allocation on %s" % name)
        del here, there
        xp.get_default_memory_pool().free_all_blocks()
        free = xp.cuda.runtime.memGetInfo()[0]
        taken = int(free * 0.9) if DEPTH == "deep" else min(free // 2, 1 << 30)
        block = xp.empty(taken, "uint8")
        found["allocated_bytes"] = block.size
        # Back to the driver, for the probes beside this one.
        del block
        xp.get_default_memory_pool().free_all_blocks()


def main():
    result["wanted"] = WANTED
    if importlib.util.find_spec("chainer") is None:
        result["absent"] = True
        return
    stage("import")
    start = time.perf_counter()
    import chainer
    import numpy as np

    result["import_s"] = time.perf_counter() - start
    result["version"] = chainer.__version__
    stage("devices")
    result["build"] = {"cupy": None, "available": chainer.backends.cuda.available}
    count = 0
    if importlib.util.find_spec("cupy") is not None:
        try:
            import cupy

            result["build"]["cupy"] = cupy.__version__
            built = cupy.cuda.runtime.runtimeGetVersion()
            result["build"]["cuda"] = "%d.%d" % (built // 1000, built % 1000 // 10)
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as error:
            result["notes"].append("cupy: %s: %s" % (type(error).__name__, error))
    for index in range(count):
        name = "cuda:%d" % index
        if not WANTED or name in WANTED or "cuda" in WANTED:
            with cupy.cuda.Device(index):
                probe(np, chainer, cupy, name)
    if not WANTED or "cpu" in WANTED:
        probe(np, chainer, np, "cpu")
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

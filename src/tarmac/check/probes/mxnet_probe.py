"""Makes MXNet compute on every device it sees, and writes down what came of it.

    python mxnet_probe.py RESULT quick|normal|deep [DEVICE ...]

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

result = {"framework": "mxnet", "stage": "import", "devices": [], "notes": [], "error": None}


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


def probe(np, mx, context, name):
    on_gpu = name != "cpu"
    found = {"name": name, "kind": "gpu" if on_gpu else "cpu"}
    result["devices"].append(found)
    if on_gpu:
        found["free_bytes"], found["memory_bytes"] = mx.context.gpu_memory_info(context.device_id)
    rng = np.random.RandomState(0)

    def put(*shape):
        array = rng.randn(*shape).astype("float32")
        return array, mx.nd.array(array, ctx=context)

    stage("product on %s" % name)
    (a, a_there), (b, b_there) = put(256, 256), put(256, 256)
    product = mx.nd.dot(a_there, b_there)
    found["placement"] = str(product.context)
    expected = a.astype("float64") @ b.astype("float64")
    found["matmul"] = judged(relative(product.asnumpy(), expected), 5e-3)
    stage("convolution on %s" % name)
    (images, images_there), (kernels, kernels_there) = put(4, 8, 16, 16), put(8, 8, 3, 3)
    convolved = mx.nd.Convolution(
        images_there, kernels_there, no_bias=True, kernel=(3, 3), num_filter=8
    )
    expected = conv_reference(np, images, kernels)
    found["convolution"] = judged(relative(convolved.asnumpy(), expected), 5e-3)
    stage("training on %s" % name)
    inputs = put(64, 32)[1]
    targets = mx.nd.array(rng.randint(0, 4, 64), ctx=context)
    weights = [put(32, 64)[1] / 6, put(64, 4)[1] / 6]
    for weight in weights:
        weight.attach_grad()
    losses = []
    for _ in range(3):
        with mx.autograd.record():
            logits = mx.nd.dot(mx.nd.relu(mx.nd.dot(inputs, weights[0])), weights[1])
            loss = -mx.nd.pick(mx.nd.log_softmax(logits), targets).mean()
        loss.backward()
        for weight in weights:
            weight[:] = weight - 0.5 * weight.grad
        losses.append(float(loss.asscalar()))
    found["training"] = {"losses": losses, "ok": losses[0] > losses[1] > losses[2]}
    if SECONDS:
        with turn():
            measure(mx, context, found, put)


def measure(mx, context, found, put):
    on_gpu, name = found["kind"] == "gpu", found["name"]
    size = SIZE["cuda" if on_gpu else "cpu"]
    found["flops"] = {}
    for kind, dtype in [("fp32", "float32")] + ([("fp16", "float16")] if on_gpu else []):
        stage("%s rate on %s" % (kind, name))
        a, b = (put(size, size)[1].astype(dtype) for _ in range(2))
        found["flops"][kind] = rate(2.0 * size**3, lambda a=a, b=b: mx.nd.dot(a, b).wait_to_read())
    stage("copies on %s" % name)
    count = (1 << 28) if on_gpu else (1 << 25)
    here = mx.nd.zeros(count // 4, ctx=context)

    def add():
        (here + 1).wait_to_read()

    # An addition reads and writes, as a copy does.
    found["copies"] = {"memory": rate(2.0 * count, add)}
    if on_gpu:
        there = mx.nd.ones(count // 4, ctx=mx.cpu())
        # Of ordinary memory, which is slower than pinned memory.
        found["copies"]["pinned"] = False
        found["copies"]["to_device"] = rate(count, lambda: there.copyto(context).wait_to_read())
        found["copies"]["from_device"] = rate(count, lambda: here.copyto(mx.cpu()).wait_to_read())
        stage("allocation on %s" % name)
        # No more, however deep: MXNet does not give memory back to probes beside this one.
        taken = 1 << 30
        mx.nd.zeros(taken, ctx=context, dtype="uint8").wait_to_read()
        found["allocated_bytes"] = taken


def main():
    result["wanted"] = WANTED
    if importlib.util.find_spec("mxnet") is None:
        result["absent"] = True
        return
    stage("import")
    start = time.perf_counter()
    import mxnet as mx
    import numpy as np

    result["import_s"] = time.perf_counter() - start
    result["version"] = mx.__version__
    stage("devices")
    features = mx.runtime.Features()
    result["build"] = {
        # It tells whether, not which.
        "with_cuda": features.is_enabled("CUDA"),
        "with_cudnn": features.is_enabled("CUDNN"),
        "onednn": features.is_enabled("MKLDNN"),
    }
    contexts = [("cuda:%d" % index, mx.gpu(index)) for index in range(mx.context.num_gpus())]
    for name, context in contexts + [("cpu", mx.cpu())]:
        if not WANTED or name in WANTED or name.split(":")[0] in WANTED:
            probe(np, mx, context, name)
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

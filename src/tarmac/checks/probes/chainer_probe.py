"""Computes with Chainer on every device that it sees, and writes the result.

    python chainer_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result.
"""

import importlib.util

from harness import (
    COPIED_BYTES,
    convolve_channels_first,
    judged,
    matrices,
    relative,
    run,
    trained,
)


def compute(probe, np, chainer, xp, name):
    import chainer.functions as F

    on_gpu = name != "cpu"
    entry = probe.device(name, on_gpu)
    if on_gpu:
        entry["free_bytes"], entry["memory_bytes"] = xp.cuda.runtime.memGetInfo()
        properties = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)
        entry["chip"] = properties["name"].decode()
        entry["capability"] = [properties["major"], properties["minor"]]
    rng = np.random.RandomState(0)

    def put(*shape):
        array = rng.randn(*shape).astype("float32")
        return array, xp.asarray(array)

    def back(variable):
        return chainer.backends.cuda.to_cpu(variable.array)

    probe.stage("product on %s" % name)
    (a, a_there), (b, b_there) = put(256, 256), put(256, 256)
    product = F.matmul(a_there, b_there)
    entry["placement"] = where(product.array)
    probe.ran(entry, "%s.asarray" % xp.__name__, where(a_there))
    probe.ran(entry, "matmul", entry["placement"])
    expected = a.astype("float64") @ b.astype("float64")
    entry["matmul"] = judged(relative(back(product), expected), 5e-3)
    probe.stage("convolution on %s" % name)
    (images, images_there), (kernels, kernels_there) = put(4, 8, 16, 16), put(8, 8, 3, 3)
    convolved = F.convolution_2d(images_there, kernels_there)
    probe.ran(entry, "convolution_2d", where(convolved.array))
    expected = convolve_channels_first(np, images, kernels)
    entry["convolution"] = judged(relative(back(convolved), expected), 5e-3)
    probe.stage("training on %s" % name)
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
    probe.ran(entry, "softmax_cross_entropy", where(loss.array))
    probe.ran(entry, "backward", where(weights[0].grad))
    entry["training"] = trained(losses)
    if probe.seconds:
        # Drawn before the turn, as it occupies the host alone.
        operands = matrices(np, probe.sizes[entry["kind"]])
        with probe.turn(entry):
            measure(probe, np, xp, entry, operands)


def where(array):
    """Return the library of an array, with the GPU for CuPy's arrays."""
    module = type(array).__module__.split(".")[0]
    return module if module == "numpy" else "%s %s" % (module, array.device)


def wait(array):
    """Wait for a vector, and so for all that was computed before it, by reading one number."""
    float(array[0])


def measure(probe, np, xp, entry, operands):
    on_gpu, name = entry["kind"] == "gpu", entry["name"]
    size = len(operands[0])
    operands = [xp.asarray(operand) for operand in operands]
    entry["flops"] = {}
    for kind, dtype in [("fp32", "float32")] + ([("fp16", "float16")] if on_gpu else []):
        probe.stage("%s rate on %s" % (kind, name))
        a, b = (operand.astype(dtype) for operand in operands)
        entry["flops"][kind] = probe.rate(2.0 * size**3, lambda a=a, b=b: xp.matmul(a, b)[0], wait)
    probe.stage("copies on %s" % name)
    count = COPIED_BYTES
    here, there = xp.zeros(count // 4, "float32"), xp.zeros(count // 4, "float32")

    def copy():
        there[...] = here
        return there

    entry["copies"] = {"memory": probe.rate(2.0 * count, copy, wait)}
    if on_gpu:
        host = np.ones(count // 4, "float32")
        # The host's memory is not pinned, so copies are slower.
        entry["copies"]["pinned"] = False

        def send():
            here.set(host)
            return here

        entry["copies"]["to_device"] = probe.rate(count, send, wait)
        entry["copies"]["from_device"] = probe.rate(count, here.get)
        probe.stage("allocation on %s" % name)
        del here, there
        xp.get_default_memory_pool().free_all_blocks()
        free = xp.cuda.runtime.memGetInfo()[0]
        taken = int(free * 0.9) if probe.depth == "deep" else min(free // 2, 1 << 30)
        # Memory is returned to the driver, for the probes that run in parallel.
        with probe.alone():
            block = xp.empty(taken, "uint8")
            entry["allocated_bytes"] = block.size
            del block
            xp.get_default_memory_pool().free_all_blocks()


def main(probe):
    if probe.lacks("chainer"):
        return
    with probe.importing():
        import chainer
        import numpy as np

    probe.result["version"] = chainer.__version__
    probe.stage("devices")
    probe.result["build"] = {"cupy": None, "available": chainer.backends.cuda.available}
    count = 0
    if importlib.util.find_spec("cupy") is not None:
        try:
            import cupy

            probe.result["build"]["cupy"] = cupy.__version__
            built = cupy.cuda.runtime.runtimeGetVersion()
            probe.result["build"]["cuda"] = "%d.%d" % (built // 1000, built % 1000 // 10)
            count = cupy.cuda.runtime.getDeviceCount()
        except Exception as error:
            probe.result["notes"].append("cupy: %s: %s" % (type(error).__name__, error))
    for index in range(count):
        name = "cuda:%d" % index
        if probe.wants(name):
            with cupy.cuda.Device(index):
                compute(probe, np, chainer, cupy, name)
    if probe.wants("cpu"):
        compute(probe, np, chainer, np, "cpu")
    probe.stage("done")


if __name__ == "__main__":
    run("chainer", main)

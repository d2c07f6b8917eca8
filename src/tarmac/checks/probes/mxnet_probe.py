"""Computes with MXNet on every device that it sees, and writes the result.

    python mxnet_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result.
"""

from harness import (
    COPIED_BYTES,
    convolve_channels_first,
    judged,
    matrices,
    relative,
    run,
    trained,
)


def compute(probe, np, mx, context, name):
    on_gpu = name != "cpu"
    entry = probe.device(name, on_gpu)
    if on_gpu:
        entry["free_bytes"], entry["memory_bytes"] = mx.context.gpu_memory_info(context.device_id)
    rng = np.random.RandomState(0)

    def put(*shape):
        array = rng.randn(*shape).astype("float32")
        return array, mx.nd.array(array, ctx=context)

    probe.stage("product on %s" % name)
    (a, a_there), (b, b_there) = put(256, 256), put(256, 256)
    product = mx.nd.dot(a_there, b_there)
    entry["placement"] = str(product.context)
    probe.ran(entry, "array", a_there.context)
    probe.ran(entry, "dot", product.context)
    expected = a.astype("float64") @ b.astype("float64")
    entry["matmul"] = judged(relative(product.asnumpy(), expected), 5e-3)
    probe.stage("convolution on %s" % name)
    (images, images_there), (kernels, kernels_there) = put(4, 8, 16, 16), put(8, 8, 3, 3)
    convolved = mx.nd.Convolution(
        images_there, kernels_there, no_bias=True, kernel=(3, 3), num_filter=8
    )
    probe.ran(entry, "Convolution", convolved.context)
    expected = convolve_channels_first(np, images, kernels)
    entry["convolution"] = judged(relative(convolved.asnumpy(), expected), 5e-3)
    probe.stage("training on %s" % name)
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
    probe.ran(entry, "mean", loss.context)
    probe.ran(entry, "backward", weights[0].grad.context)
    entry["training"] = trained(losses)
    if probe.seconds:
        # Drawn before the turn, as it occupies the host alone.
        operands = matrices(np, probe.sizes[entry["kind"]])
        with probe.turn(entry):
            measure(probe, mx, context, entry, operands)


def measure(probe, mx, context, entry, operands):
    on_gpu, name = entry["kind"] == "gpu", entry["name"]

    def wait(_):
        # MXNet's threads may compute two arrays in any order.
        mx.nd.waitall()

    size = len(operands[0])
    operands = [mx.nd.array(operand, ctx=context) for operand in operands]
    entry["flops"] = {}
    for kind, dtype in [("fp32", "float32")] + ([("fp16", "float16")] if on_gpu else []):
        probe.stage("%s rate on %s" % (kind, name))
        a, b = (operand.astype(dtype) for operand in operands)
        entry["flops"][kind] = probe.rate(2.0 * size**3, lambda a=a, b=b: mx.nd.dot(a, b), wait)
    probe.stage("copies on %s" % name)
    count = COPIED_BYTES
    here, out = (mx.nd.zeros(count // 4, ctx=context) for _ in range(2))
    # Into an array that exists, as new memory takes a CPU longer than the copy.
    entry["copies"] = {"memory": probe.rate(2.0 * count, lambda: here.copyto(out), wait)}
    if on_gpu:
        there = mx.nd.ones(count // 4, ctx=mx.cpu())
        # The host's memory is not pinned, so copies are slower.
        entry["copies"]["pinned"] = False
        entry["copies"]["to_device"] = probe.rate(count, lambda: there.copyto(context), wait)
        entry["copies"]["from_device"] = probe.rate(count, lambda: here.copyto(mx.cpu()), wait)
        probe.stage("allocation on %s" % name)
        # 1 GiB at any depth: MXNet does not return memory for the probes that run in parallel.
        taken = 1 << 30
        mx.nd.zeros(taken, ctx=context, dtype="uint8").wait_to_read()
        entry["allocated_bytes"] = taken


def main(probe):
    if probe.lacks("mxnet"):
        return
    with probe.importing():
        import mxnet as mx
        import numpy as np

    probe.result["version"] = mx.__version__
    probe.stage("devices")
    features = mx.runtime.Features()
    probe.result["build"] = {
        # MXNet reports whether it has CUDA, but not which version.
        "with_cuda": features.is_enabled("CUDA"),
        "with_cudnn": features.is_enabled("CUDNN"),
        "onednn": features.is_enabled("MKLDNN"),
    }
    contexts = [("cuda:%d" % index, mx.gpu(index)) for index in range(mx.context.num_gpus())]
    for name, context in contexts + [("cpu", mx.cpu())]:
        if probe.wants(name):
            compute(probe, np, mx, context, name)
    probe.stage("done")


if __name__ == "__main__":
    run("mxnet", main)

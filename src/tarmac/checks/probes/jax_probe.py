"""Computes with JAX on every device that it sees, and writes the result.

    python jax_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result.
"""

import os

from harness import COPIED_BYTES, convolve, judged, matrices, relative, run, trained


def compute(probe, np, jax, device, name):
    import jax.numpy as jnp

    on_gpu = device.platform != "cpu"
    entry = probe.device(name, on_gpu)
    if on_gpu:
        entry["chip"] = device.device_kind
        # NVIDIA's devices have "9.0" and the like.
        capability = getattr(device, "compute_capability", None) or ""
        entry["capability"] = [int(part) for part in str(capability).split(".") if part.isdigit()]
        stats = device.memory_stats() or {}
        entry["memory_bytes"] = stats.get("bytes_limit")
    rng = np.random.RandomState(0)

    def put(*shape):
        array = rng.randn(*shape).astype("float32")
        return array, jax.device_put(array, device)

    probe.stage("product on %s" % name)
    (a, a_there), (b, b_there) = put(256, 256), put(256, 256)
    product = a_there @ b_there
    entry["placement"] = where(product)
    probe.ran(entry, "device_put", where(a_there))
    probe.ran(entry, "matmul", entry["placement"])
    expected = a.astype("float64") @ b.astype("float64")
    entry["matmul"] = judged(relative(np.asarray(product), expected), 1e-3)
    probe.stage("convolution on %s" % name)
    (images, images_there), (kernels, kernels_there) = put(4, 16, 16, 8), put(3, 3, 8, 8)
    convolved = jax.lax.conv_general_dilated(
        images_there, kernels_there, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    probe.ran(entry, "conv_general_dilated", where(convolved))
    expected = convolve(np, images, kernels)
    entry["convolution"] = judged(relative(np.asarray(convolved), expected), 1e-3)
    probe.stage("training on %s" % name)
    inputs = put(64, 32)[1]
    targets = jax.device_put(rng.randint(0, 4, 64), device)
    weights = [put(32, 64)[1] / 6, put(64, 4)[1] / 6]

    def loss_of(weights):
        logits = jax.nn.log_softmax(jax.nn.relu(inputs @ weights[0]) @ weights[1])
        return -jnp.take_along_axis(logits, targets[:, None], 1).mean()

    step, losses = jax.jit(jax.value_and_grad(loss_of)), []
    for _ in range(3):
        loss, gradients = step(weights)
        weights = [w - 0.5 * g for w, g in zip(weights, gradients)]
        losses.append(float(loss))
    probe.ran(entry, "jit", where(loss))
    probe.ran(entry, "grad", where(gradients[0]))
    entry["training"] = trained(losses)
    if probe.seconds:
        # Drawn before the turn, as it occupies the host alone.
        operands = matrices(np, probe.sizes[entry["kind"]])
        with probe.turn(entry):
            measure(probe, jax, device, entry, operands)


def where(array):
    """Return the devices of an array, as JAX names them."""
    return ", ".join(sorted(map(str, array.devices())))


def wait(array):
    """Wait for an array, and so for all that was computed before it on its device."""
    array.block_until_ready()


def measure(probe, jax, device, entry, operands):
    import numpy as np

    on_gpu, size = entry["kind"] == "gpu", len(operands[0])
    operands = [jax.device_put(operand, device) for operand in operands]
    entry["flops"] = {}
    multiply = jax.jit(jax.numpy.matmul)
    types = {"fp32": "float32", "bf16": "bfloat16"}
    if on_gpu:
        types["fp16"] = "float16"
        if entry["capability"] and entry["capability"] < [8, 0]:
            # bf16 is emulated before Ampere, and takes seconds for each product.
            del types["bf16"]
    for kind, dtype in types.items():
        probe.stage("%s rate on %s" % (kind, entry["name"]))
        a, b = (operand.astype(dtype) for operand in operands)
        entry["flops"][kind] = probe.rate(2.0 * size**3, lambda a=a, b=b: multiply(a, b), wait)
    probe.stage("copies on %s" % entry["name"])
    count = COPIED_BYTES
    there = np.ones(count // 4, "float32")
    here = jax.device_put(there, device)
    # An addition reads and writes, as a copy does. In place, as new memory takes a CPU longer.
    add = jax.jit(lambda array: array + 1, donate_argnums=0)

    def copy():
        nonlocal here
        here = add(here)
        return here

    entry["copies"] = {"memory": probe.rate(2.0 * count, copy, wait)}
    if on_gpu:
        # The host's memory is not pinned, so copies are slower.
        entry["copies"]["pinned"] = False
        entry["copies"]["to_device"] = probe.rate(
            count, lambda: jax.device_put(there, device), wait
        )
        # A new array each time, as JAX keeps the host's copy of an array that was copied before.
        entry["copies"]["from_device"] = probe.rate(count, lambda: np.asarray(copy()))
        probe.stage("allocation on %s" % entry["name"])
        # 1 GiB at any depth: JAX does not return memory for the probes that run in parallel.
        taken = 1 << 30
        with jax.default_device(device):
            jax.numpy.zeros(taken, "uint8").block_until_ready()
        entry["allocated_bytes"] = taken


def main(probe):
    if probe.lacks("jax"):
        return
    # A probed GPU may be in use, so do not reserve three quarters of its memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with probe.importing():
        import jax
        import numpy as np

    probe.result["version"] = jax.__version__
    probe.stage("devices")
    import jaxlib

    probe.result["build"] = {"jaxlib": jaxlib.__version__, **plugins()}
    # Disable TF32, whose mantissa has ten bits, so that results and rates are fp32's.
    jax.config.update("jax_default_matmul_precision", "highest")
    devices = [device for device in jax.devices() if device.platform != "cpu"]
    named = [("cuda:%d" % device.id, device) for device in devices]
    for name, device in named + [("cpu", jax.devices("cpu")[0])]:
        if probe.wants(name):
            compute(probe, np, jax, device, name)
    probe.stage("done")


def plugins():
    """Return the versions of the installed CUDA plugins, and of CUDA, cuDNN and cuBLAS for them."""
    try:
        from importlib.metadata import distributions
    except ImportError:
        return {}
    installed = {(d.metadata["Name"] or "").replace("_", "-"): d.version for d in distributions()}
    versions = {n: version for n, version in installed.items() if n.startswith("jax-cuda")}
    # jax-cuda13-plugin is for CUDA 13, with any minor version.
    majors = [name[len("jax-cuda") :].split("-")[0] for name in versions]
    cudnn = [version for name, version in installed.items() if name.startswith("nvidia-cudnn")]
    cublas = [version for name, version in installed.items() if name.startswith("nvidia-cublas")]
    return {
        "plugins": versions,
        "cuda": majors[0] if majors else None,
        "cudnn": cudnn[0] if majors and cudnn else None,
        "cublas": cublas[0] if majors and cublas else None,
    }


if __name__ == "__main__":
    run("jax", main)

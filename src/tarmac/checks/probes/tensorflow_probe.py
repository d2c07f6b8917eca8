"""Computes with TensorFlow on every device that it sees, and writes the result.

    python tensorflow_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result.
"""

from harness import COPIED_BYTES, convolve, judged, relative, run, trained


def compute(probe, np, tf, device):
    on_gpu = device.device_type != "CPU"
    name = "%s:%s" % (device.device_type, device.name.rsplit(":", 1)[1])
    entry = probe.device("cuda:" + name[4:] if on_gpu else "cpu", on_gpu)
    if on_gpu:
        details = tf.config.experimental.get_device_details(device)
        entry["chip"] = details.get("device_name")
        entry["capability"] = details.get("compute_capability")
    rng = np.random.RandomState(0)
    with tf.device(name):
        probe.stage("product on %s" % entry["name"])
        a, b = (rng.randn(256, 256).astype("float32") for _ in range(2))
        constant = tf.constant(a)
        product = tf.linalg.matmul(constant, tf.constant(b))
        entry["placement"] = product.device
        probe.ran(entry, "Const", constant.device)
        probe.ran(entry, "MatMul", product.device)
        expected = a.astype("float64") @ b.astype("float64")
        entry["matmul"] = judged(relative(product.numpy(), expected), 1e-3)
        probe.stage("convolution on %s" % entry["name"])
        images = rng.randn(4, 16, 16, 8).astype("float32")
        kernels = rng.randn(3, 3, 8, 8).astype("float32")
        convolved = tf.nn.conv2d(tf.constant(images), tf.constant(kernels), 1, "VALID")
        probe.ran(entry, "Conv2D", convolved.device)
        expected = convolve(np, images, kernels)
        entry["convolution"] = judged(relative(convolved.numpy(), expected), 1e-3)
        probe.stage("training on %s" % entry["name"])
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
            gradients = tape.gradient(loss, weights)
            for weight, gradient in zip(weights, gradients):
                weight.assign_sub(0.5 * gradient)
            losses.append(float(loss))
        probe.ran(entry, "Variable", weights[0].device)
        probe.ran(entry, "Mean", loss.device)
        probe.ran(entry, "GradientTape", gradients[0].device)
        entry["training"] = trained(losses)
        if probe.seconds:
            with probe.turn(entry):
                measure(probe, np, tf, entry, on_gpu)


def wait(tensor):
    """Wait for a vector, and so for all that was computed before it, by reading one number."""
    tensor[0].numpy()


def measure(probe, np, tf, entry, on_gpu):
    size = probe.sizes["gpu" if on_gpu else "cpu"]
    entry["flops"] = {}
    types = {"fp32": tf.float32, "bf16": tf.bfloat16}
    if on_gpu:
        types["fp16"] = tf.float16
        if tuple(entry["capability"] or (8, 0)) < (8, 0):
            # bf16 is emulated before Ampere, and takes seconds for each product.
            del types["bf16"]
    for name, dtype in types.items():
        probe.stage("%s rate on %s" % (name, entry["name"]))
        a, b = (tf.cast(tf.random.normal((size, size)), dtype) for _ in range(2))
        entry["flops"][name] = probe.rate(2.0 * size**3, lambda a=a, b=b: (a @ b)[0], wait)
    probe.stage("copies on %s" % entry["name"])
    count = COPIED_BYTES
    here, there = tf.zeros(count // 4), tf.Variable(tf.zeros(count // 4))
    # In place, as new memory takes a CPU longer than the addition. It reads two arrays and writes
    # one.
    entry["copies"] = {
        "memory": probe.rate(3.0 * count, lambda: there.assign_add(here), wait),
    }
    if on_gpu:
        host = np.ones(count // 4, "float32")
        # The host's memory is not pinned, so copies are slower.
        entry["copies"]["pinned"] = False
        entry["copies"]["to_device"] = probe.rate(count, lambda: tf.constant(host), wait)
        entry["copies"]["from_device"] = probe.rate(count, here.numpy)
        probe.stage("allocation on %s" % entry["name"])
        # 1 GiB at any depth: TensorFlow does not return memory for the probes that run in parallel.
        taken = 1 << 30
        tf.zeros(taken, tf.uint8)[0].numpy()
        entry["allocated_bytes"] = taken


def main(probe):
    if probe.lacks("tensorflow"):
        return
    with probe.importing():
        import numpy as np
        import tensorflow as tf

    probe.result["version"] = tf.__version__
    probe.stage("devices")
    build = tf.sysconfig.get_build_info()
    probe.result["build"] = {
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "hip": build.get("rocm_version"),
        "architectures": list(build.get("cuda_compute_capabilities") or []),
        "with_cuda": tf.test.is_built_with_cuda(),
    }
    # Disable TF32, whose mantissa has ten bits, so that results and rates are fp32's.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    devices = tf.config.list_physical_devices("GPU")
    for device in devices:
        tf.config.experimental.set_memory_growth(device, True)
    for device in devices + tf.config.list_physical_devices("CPU"):
        index = device.name.rsplit(":", 1)[1]
        name = "cuda:" + index if device.device_type == "GPU" else "cpu"
        if probe.wants(name):
            compute(probe, np, tf, device)
    probe.stage("done")


if __name__ == "__main__":
    run("tensorflow", main)

"""Adds numbers up over several processes by Horovod, with each framework that it is built for.

    python horovod_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for how it is run. TARMAC_PROBE_RANKS is the number of processes, 2 by default.
Started as ``--rank FRAMEWORK cpu|gpu DIRECTORY`` it is one of them, which says in a file of its own
how far it came; so ranks that hang have names.
"""

import glob
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

from harness import STEPS, read_ranks, run, teller

NUM_RANKS = int(os.environ.get("TARMAC_PROBE_RANKS", "2"))
# Ranks that hang are named before the probe itself is ended.
LIMIT_S = 0.8 * float(os.environ.get("TARMAC_PROBE_LIMIT_S", "600"))
# Bytes of the message that is timed.
NUM_BYTES = {"gpu": 1 << 28, "cpu": 1 << 24}
REPEATS = 5
FRAMEWORKS = ("torch", "tensorflow", "mxnet")
COUNT = 1 << 18


def numbers(np, rank):
    # Whole numbers, whose sums are exact.
    return (np.arange(COUNT) * (2 * rank + 3) % 251).astype("float32")


def gpus_of(framework):
    """Return how many GPUs a framework sees."""
    if framework == "torch":
        import torch

        return torch.cuda.device_count()
    if framework == "tensorflow":
        import tensorflow as tf

        return len(tf.config.list_physical_devices("GPU"))
    import mxnet as mx

    return mx.context.num_gpus()


def operations(framework, hvd, index):
    """Return what puts an array on a rank's device, adds it up, and brings it back.

    ``index`` is of its GPU, None on the CPU. Bringing it back waits for it.
    """
    if framework == "torch":
        import torch

        device = "cpu" if index is None else "cuda:%d" % index
        return (
            lambda array: torch.from_numpy(array).to(device),
            lambda tensor: hvd.allreduce(tensor, op=hvd.Sum),
            lambda tensor: tensor.cpu().numpy(),
        )
    if framework == "tensorflow":
        import tensorflow as tf

        device = "CPU:0" if index is None else "GPU:%d" % index

        def on_device(function):
            def placed(value):
                with tf.device(device):
                    return function(value)

            return placed

        return (
            on_device(tf.constant),
            on_device(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum)),
            lambda tensor: tensor.numpy(),
        )
    import mxnet as mx

    context = mx.cpu() if index is None else mx.gpu(index)
    return (
        lambda array: mx.nd.array(array, ctx=context),
        lambda tensor: hvd.allreduce(tensor, average=False),
        lambda tensor: tensor.asnumpy(),
    )


def as_rank(framework, wanted, directory):
    """Add up, and leave in a file of this rank's own how far it came."""
    say = teller(directory, int(os.environ.get("HOROVOD_RANK", "0")))
    say(step="import")
    # Beside other probes, and other ranks, on one device.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    import numpy as np

    hvd = importlib.import_module("horovod." + framework)
    from horovod.common.util import nccl_built

    say(step="meeting the others")
    hvd.init()
    on_gpu = wanted == "gpu" and nccl_built() and gpus_of(framework) >= hvd.local_size()
    index = hvd.local_rank() if on_gpu else None
    put, add, back = operations(framework, hvd, index)
    say(step="adding up")
    total = back(add(put(numbers(np, hvd.rank()))))
    expected = sum(numbers(np, rank) for rank in range(hvd.size()))
    say(step="timing")
    size = NUM_BYTES["gpu" if on_gpu else "cpu"]
    message, token = put(np.zeros(size // 4, "float32")), put(np.zeros(1, "float32"))
    best = float("inf")
    for _ in range(REPEATS + 1):
        # All start together: the first time warms up.
        back(add(token))
        start = time.perf_counter()
        back(add(message)[:1])
        best = min(best, time.perf_counter() - start)
    say(
        step="done",
        rank=hvd.rank(),
        size=hvd.size(),
        device="cpu" if index is None else "cuda:%d" % index,
        ok=bool((total == expected).all()),
        # What a link carries, whatever the number of ranks; NVIDIA's nccl-tests, PERFORMANCE.md.
        bus_bytes_per_s=2.0 * (hvd.size() - 1) / hvd.size() * size / best,
    )
    hvd.shutdown()


def add_up(probe, framework, limit_s):
    """Add up with a framework; return whether that came to an end."""
    probe.stage("all-reduce with %s" % framework)
    with tempfile.TemporaryDirectory() as directory:
        launcher = [sys.executable, "-m", "horovod.runner.launch"]
        ranks = ["-np", str(NUM_RANKS), "-H", "localhost:%d" % NUM_RANKS, "--gloo"]
        kind = "cpu" if probe.wanted == ["cpu"] else "gpu"
        own = [sys.executable, os.path.abspath(__file__), "--rank", framework, kind, directory]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                launcher + ranks + own, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                process.wait(limit_s)
                hangs = False
            except subprocess.TimeoutExpired:
                hangs = True
            said = read_ranks(directory, NUM_RANKS)
            process.kill()
            process.wait()
            output.seek(0)
            printed = output.read()[-3000:]
    if hangs:
        # Those that have come least far keep the others waiting.
        first = min(STEPS.index(rank["step"]) for rank in said)
        late = [n for n, rank in enumerate(said) if STEPS.index(rank["step"]) == first]
        names = ", ".join("rank %d" % number for number in late)
        probe.result["all_reduce"] = {
            "problem": "hung",
            "detail": "%s with %s at: %s, after %.0f s" % (names, framework, STEPS[first], limit_s),
        }
        return False
    came = [rank for rank in said if rank["step"] == "done"]
    if process.returncode or len(came) < NUM_RANKS:
        raise RuntimeError(
            "%d of %d ranks came back with %s:\n%s" % (len(came), NUM_RANKS, framework, printed)
        )
    on_gpu = all(rank["device"] != "cpu" for rank in said)
    probe.result["devices"].append(
        {
            "name": "%d ranks by %s" % (NUM_RANKS, framework),
            "kind": "gpu" if on_gpu else "cpu",
            "ranks": said,
            "bus_bytes_per_s": min(rank["bus_bytes_per_s"] for rank in said),
        }
    )
    if not on_gpu and probe.wanted != ["cpu"]:
        probe.result["cpu_because"] = (
            "%d ranks need a GPU each" % NUM_RANKS
            if probe.result["build"]["nccl"]
            else "this Horovod is built without NCCL"
        )
    if not all(rank["ok"] for rank in said):
        wrong = ", ".join(str(rank["rank"]) for rank in said if not rank["ok"])
        probe.result["all_reduce"] = {
            "problem": "wrong",
            "detail": "with %s, on rank %s" % (framework, wrong),
        }
    return True


def main(probe):
    if importlib.util.find_spec("horovod") is None:
        probe.result["absent"] = True
        return
    probe.stage("import")
    start = time.perf_counter()
    import horovod
    from horovod.common.util import gloo_built, nccl_built

    probe.result["import_s"] = time.perf_counter() - start
    probe.result["version"] = horovod.__version__
    probe.stage("devices")
    # Horovod's own answer to this may be wrong: what it built lies there as a library.
    package = os.path.dirname(horovod.__file__)
    built = [name for name in FRAMEWORKS if glob.glob(os.path.join(package, name, "mpi_lib*.so"))]
    probe.result["build"] = {
        "frameworks": built,
        "gloo": bool(gloo_built()),
        "nccl": bool(nccl_built()),
    }
    if not built:
        raise ImportError(
            "Extension horovod.torch has not been built, nor one of another framework"
        )
    if all(add_up(probe, framework, LIMIT_S / len(built)) for framework in built):
        probe.stage("done")


if __name__ == "__main__":
    run("horovod", main, as_rank)

"""All-reduces over several processes with Horovod, with each framework that it is built for.

    python horovod_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result. Started as ``--rank FRAMEWORK cpu|gpu DIRECTORY``,
the program is one of the ranks. It writes its progress to a file of its own, so that ranks that
hang can be named.
"""

import glob
import importlib
import os
import subprocess
import sys
import tempfile
import time

from harness import (
    MESSAGE_BYTES,
    bus_rate,
    latest,
    num_ranks,
    numbers_of,
    ranks_limit_s,
    read_ranks,
    run,
    teller,
)

REPEATS = 5
FRAMEWORKS = ("torch", "tensorflow", "mxnet")
COUNT = 1 << 18


def gpus_of(framework):
    """Return the number of GPUs that a framework sees."""
    if framework == "torch":
        import torch

        return torch.cuda.device_count()
    if framework == "tensorflow":
        import tensorflow as tf

        return len(tf.config.list_physical_devices("GPU"))
    import mxnet as mx

    return mx.context.num_gpus()


def operations(framework, hvd, index):
    """Return functions that copy an array to a rank's device, all-reduce it, and copy it back.

    ``index`` is the index of the rank's GPU, None for the CPU. Copying back waits for the result.
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
    """All-reduce as one rank, and write the progress to this rank's file."""
    say = teller(directory, int(os.environ.get("HOROVOD_RANK", "0")))
    say(step="import")
    # Other probes and ranks may use the same device.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    import numpy as np

    hvd = importlib.import_module("horovod." + framework)
    from horovod.common.util import nccl_built

    say(step="rendezvous")
    hvd.init()
    on_gpu = wanted == "gpu" and nccl_built() and gpus_of(framework) >= hvd.local_size()
    index = hvd.local_rank() if on_gpu else None
    put, all_reduce, back = operations(framework, hvd, index)
    positions = np.arange(COUNT)
    say(step="all-reduce")
    summed = all_reduce(put(numbers_of(positions, hvd.rank()).astype("float32")))
    total = back(summed)
    expected = sum(numbers_of(positions, rank) for rank in range(hvd.size()))
    say(step="timing")
    size = MESSAGE_BYTES["gpu" if on_gpu else "cpu"]
    message, token = put(np.zeros(size // 4, "float32")), put(np.zeros(1, "float32"))
    best = float("inf")
    for _ in range(REPEATS + 1):
        # The small all-reduce makes all ranks start together. The first repeat warms up.
        back(all_reduce(token))
        start = time.perf_counter()
        back(all_reduce(message)[:1])
        best = min(best, time.perf_counter() - start)
    say(
        step="done",
        rank=hvd.rank(),
        local_rank=hvd.local_rank(),
        size=hvd.size(),
        # MXNet names the device "context".
        ran_on=str(summed.context if framework == "mxnet" else summed.device),
        device="cpu" if index is None else "cuda:%d" % index,
        ok=bool((total == expected).all()),
        bus_bytes_per_s=bus_rate(hvd.size(), size, best),
    )
    hvd.shutdown()


def compute(probe, framework, limit_s):
    """All-reduce with a framework; return whether it finished, False where it hung."""
    count = num_ranks()
    probe.stage("all-reduce with %s" % framework)
    with tempfile.TemporaryDirectory(dir=probe.directory) as directory:
        launcher = [sys.executable, "-m", "horovod.runner.launch"]
        ranks = ["-np", str(count), "-H", "localhost:%d" % count, "--gloo"]
        kind = "cpu" if probe.wanted == ["cpu"] else "gpu"
        own = [sys.executable, os.path.abspath(__file__), "--rank", framework, kind, directory]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            # -m searches the current directory first, so do not run in the user's directory.
            process = subprocess.Popen(
                launcher + ranks + own,
                cwd=os.path.dirname(os.path.abspath(__file__)),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                process.wait(limit_s)
                hangs = False
            except subprocess.TimeoutExpired:
                hangs = True
            reports = read_ranks(directory, count)
            process.kill()
            process.wait()
            output.seek(0)
            printed = output.read()[-3000:]
    if hangs:
        names, step = latest(reports, range(count))
        probe.result["all_reduce"] = {
            "problem": "hung",
            "detail": "%s with %s at: %s, after %.0f s" % (names, framework, step, limit_s),
        }
        return False
    came = [rank for rank in reports if rank["step"] == "done"]
    if process.returncode or len(came) < count:
        raise RuntimeError(
            "%d of %d ranks came back with %s:\n%s" % (len(came), count, framework, printed)
        )
    on_gpu = all(rank["device"] != "cpu" for rank in reports)
    entry = probe.device("%d ranks by %s" % (count, framework), on_gpu)
    entry["ranks"] = reports
    for rank in reports:
        operation = "allreduce by rank %(rank)d of %(size)d, local rank %(local_rank)d" % rank
        probe.ran(entry, operation, rank["ran_on"])
    entry["bus_bytes_per_s"] = min(rank["bus_bytes_per_s"] for rank in reports)
    if not on_gpu and probe.wanted != ["cpu"]:
        probe.result["cpu_because"] = (
            "%d ranks need a GPU each" % count
            if probe.result["build"]["nccl"]
            else "this Horovod is built without NCCL"
        )
    if not all(rank["ok"] for rank in reports):
        wrong = ", ".join(str(rank["rank"]) for rank in reports if not rank["ok"])
        probe.result["all_reduce"] = {
            "problem": "wrong",
            "detail": "with %s, on rank %s" % (framework, wrong),
        }
    return True


def main(probe):
    if probe.lacks("horovod"):
        return
    with probe.importing():
        import horovod
        from horovod.common.util import gloo_built, nccl_built

    probe.result["version"] = horovod.__version__
    probe.stage("devices")
    # Horovod's own answer may be wrong, so look for the libraries that its build made.
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
    if all(compute(probe, framework, ranks_limit_s() / len(built)) for framework in built):
        probe.stage("done")


if __name__ == "__main__":
    run("horovod", main, as_rank)

"""Adds numbers up over several processes by Horovod, with each framework that it is built for.

    python horovod_probe.py RESULT quick|normal|deep [DEVICE ...]

Stands alone: it runs under whatever interpreter holds the framework. RESULT is rewritten after
every stage, so that a crash or a hang leaves the stage it came in. TARMAC_PROBE_RANKS is the
number of processes, 2 by default. Started as ``--rank FRAMEWORK cpu|gpu DIRECTORY`` it is one of
them, which says in a file of its own how far it came; so ranks that hang have names.
"""

import faulthandler
import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

NUM_RANKS = int(os.environ.get("TARMAC_PROBE_RANKS", "2"))
# Ranks that hang are named before the probe itself is ended.
LIMIT_S = 0.8 * float(os.environ.get("TARMAC_PROBE_LIMIT_S", "600"))
STEPS = ["start", "import", "meeting the others", "adding up", "timing", "done"]
# Bytes of the message that is timed.
NUM_BYTES = {"gpu": 1 << 28, "cpu": 1 << 24}
REPEATS = 5
FRAMEWORKS = ("torch", "tensorflow", "mxnet")
COUNT = 1 << 18


def stage(name):
    result["stage"] = name
    with open(RESULT + ".part", "w") as file:
        json.dump(result, file)
    os.replace(RESULT + ".part", RESULT)


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
            def run(value):
                with tf.device(device):
                    return function(value)

            return run

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
    number = os.environ.get("HOROVOD_RANK", "0")

    def say(**facts):
        path = os.path.join(directory, "rank-%s.json" % number)
        with open(path + ".part", "w") as file:
            json.dump(facts, file)
        os.replace(path + ".part", path)

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


def read_ranks(directory):
    found = []
    for rank in range(NUM_RANKS):
        try:
            with open(os.path.join(directory, "rank-%d.json" % rank)) as file:
                found.append(json.load(file))
        except OSError:
            found.append({"step": "start"})
    return found


def add_up(framework, limit_s):
    """Add up with a framework; return whether that came to an end."""
    stage("all-reduce with %s" % framework)
    with tempfile.TemporaryDirectory() as directory:
        launcher = [sys.executable, "-m", "horovod.runner.launch"]
        ranks = ["-np", str(NUM_RANKS), "-H", "localhost:%d" % NUM_RANKS, "--gloo"]
        kind = "cpu" if WANTED == ["cpu"] else "gpu"
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
            said = read_ranks(directory)
            process.kill()
            process.wait()
            output.seek(0)
            printed = output.read()[-3000:]
    if hangs:
        # Those that have come least far keep the others waiting.
        first = min(STEPS.index(rank["step"]) for rank in said)
        late = [n for n, rank in enumerate(said) if STEPS.index(rank["step"]) == first]
        names = ", ".join("rank %d" % number for number in late)
        result["all_reduce"] = {
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
    result["devices"].append(
        {
            "name": "%d ranks by %s" % (NUM_RANKS, framework),
            "kind": "gpu" if on_gpu else "cpu",
            "ranks": said,
            "bus_bytes_per_s": min(rank["bus_bytes_per_s"] for rank in said),
        }
    )
    if not on_gpu and WANTED != ["cpu"]:
        result["cpu_because"] = (
            "%d ranks need a GPU each" % NUM_RANKS
            if result["build"]["nccl"]
            else "this Horovod is built without NCCL"
        )
    if not all(rank["ok"] for rank in said):
        wrong = ", ".join(str(rank["rank"]) for rank in said if not rank["ok"])
        result["all_reduce"] = {
            "problem": "wrong",
            "detail": "with %s, on rank %s" % (framework, wrong),
        }
    return True


def main():
    result["wanted"] = WANTED
    if importlib.util.find_spec("horovod") is None:
        result["absent"] = True
        return
    stage("import")
    start = time.perf_counter()
    import horovod
    from horovod.common.util import gloo_built, nccl_built

    result["import_s"] = time.perf_counter() - start
    result["version"] = horovod.__version__
    stage("devices")
    # Horovod's own answer to this may be wrong: what it built lies there as a library.
    package = os.path.dirname(horovod.__file__)
    built = [name for name in FRAMEWORKS if glob.glob(os.path.join(package, name, "mpi_lib*.so"))]
    result["build"] = {
        "frameworks": built,
        "gloo": bool(gloo_built()),
        "nccl": bool(nccl_built()),
    }
    if not built:
        raise ImportError(
            "Extension horovod.torch has not been built, nor one of another framework"
        )
    if all(add_up(framework, LIMIT_S / len(built)) for framework in built):
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

if __name__ == "__main__" and sys.argv[1] == "--rank":
    as_rank(sys.argv[2], sys.argv[3], sys.argv[4])
elif __name__ == "__main__":
    RESULT, DEPTH, WANTED = sys.argv[1], sys.argv[2], sys.argv[3:]
    result = {"framework": "horovod", "stage": "import", "devices": [], "notes": [], "error": None}
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

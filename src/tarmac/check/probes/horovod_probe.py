"""Adds numbers up over two processes by Horovod, with each framework that it is built for.

    python horovod_probe.py RESULT quick|normal|deep [DEVICE ...]

Stands alone: it runs under whatever interpreter holds the framework. RESULT is rewritten after
every stage, so that a crash or a hang leaves the stage it came in. Started as ``--rank FRAMEWORK
DIRECTORY`` it is one of the processes.
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

NUM_RANKS = 2
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


def as_rank(framework, directory):
    """Add up, and leave the verdict in a file of this rank's own."""
    import numpy as np

    hvd = importlib.import_module("horovod." + framework)
    hvd.init()
    own, device = numbers(np, hvd.rank()), "cpu"
    if framework == "torch":
        import torch

        tensor = torch.from_numpy(own)
        if torch.cuda.is_available():
            device = "cuda:%d" % hvd.local_rank()
            tensor = tensor.to(device)
        total = hvd.allreduce(tensor, op=hvd.Sum).cpu().numpy()
    elif framework == "tensorflow":
        import tensorflow as tf

        total = hvd.allreduce(tf.constant(own), op=hvd.Sum).numpy()
    else:
        import mxnet as mx

        total = hvd.allreduce(mx.nd.array(own), average=False).asnumpy()
    expected = sum(numbers(np, rank) for rank in range(hvd.size()))
    verdict = {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "device": device,
        "ok": bool((total == expected).all()),
    }
    with open(os.path.join(directory, "rank-%d.json" % hvd.rank()), "w") as file:
        json.dump(verdict, file)
    hvd.shutdown()


def add_up(framework):
    stage("all-reduce with %s" % framework)
    with tempfile.TemporaryDirectory() as directory:
        launcher = [sys.executable, "-m", "horovod.runner.launch"]
        ranks = ["-np", str(NUM_RANKS), "-H", "localhost:%d" % NUM_RANKS, "--gloo"]
        own = [sys.executable, os.path.abspath(__file__), "--rank", framework, directory]
        done = subprocess.run(
            launcher + ranks + own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            check=False,
        )
        verdicts = []
        for name in sorted(os.listdir(directory)):
            with open(os.path.join(directory, name)) as file:
                verdicts.append(json.load(file))
    if done.returncode or len(verdicts) < NUM_RANKS:
        raise RuntimeError(
            "%d of %d ranks came back with %s:\n%s"
            % (len(verdicts), NUM_RANKS, framework, done.stdout[-3000:])
        )
    kind = "gpu" if all(v["device"] != "cpu" for v in verdicts) else "cpu"
    name = "%d ranks by %s" % (NUM_RANKS, framework)
    result["devices"].append({"name": name, "kind": kind, "ranks": verdicts})
    if not all(verdict["ok"] for verdict in verdicts):
        wrong = ", ".join(str(v["rank"]) for v in verdicts if not v["ok"])
        result["all_reduce"] = {
            "problem": "wrong",
            "detail": "with %s, on rank %s" % (framework, wrong),
        }


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
    for framework in built:
        add_up(framework)
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
    as_rank(sys.argv[2], sys.argv[3])
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

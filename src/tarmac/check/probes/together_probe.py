"""Adds numbers up over several processes by PyTorch, and copies between every pair of GPUs.

    python together_probe.py RESULT quick|normal|deep NUM_RANKS LIMIT_S [DEVICE ...]

Stands alone: it runs under whatever interpreter holds PyTorch. Over NCCL where there is a GPU for
each rank, else over Gloo. Started as ``--rank DIRECTORY`` it is one of the processes, which says in
a file of its own how far it came; so ranks that hang have names.
"""

import faulthandler
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

# Bytes of the message that is timed: large enough to fill a link.
NUM_BYTES = {"gpu": 1 << 28, "cpu": 1 << 24}
REPEATS = 5


def stage(name):
    result["stage"] = name
    with open(RESULT + ".part", "w") as file:
        json.dump(result, file)
    os.replace(RESULT + ".part", RESULT)


def as_rank(directory):
    """Add up, and leave the verdict in a file of this rank's own."""
    rank = int(os.environ["RANK"])

    def say(**facts):
        path = os.path.join(directory, "rank-%d.json" % rank)
        with open(path + ".part", "w") as file:
            json.dump(facts, file)
        os.replace(path + ".part", path)

    say(step="import")
    import torch
    import torch.distributed as dist

    world_size, count = int(os.environ["WORLD_SIZE"]), torch.cuda.device_count()
    on_gpu = count >= world_size
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    say(step="meeting the others")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    say(step="adding up")
    place = torch.arange(1 << 18, device=device)

    def numbers(of):
        # Whole numbers, whose sums are exact in fp32.
        return (place * (2 * of + 3) % 251).float()

    total = numbers(rank)
    dist.all_reduce(total)
    expected = sum(numbers(of) for of in range(world_size))
    ok = bool(torch.equal(total, expected))
    say(step="timing")
    size = NUM_BYTES["gpu" if on_gpu else "cpu"]
    message = torch.zeros(size // 4, device=device)
    dist.all_reduce(message)
    best = float("inf")
    for _ in range(REPEATS):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(message)
        if on_gpu:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    # What a link carries, whatever the number of ranks; NVIDIA's nccl-tests, PERFORMANCE.md.
    bus = 2.0 * (world_size - 1) / world_size * size / best
    dist.barrier()
    dist.destroy_process_group()
    say(
        step="done",
        ok=ok,
        device=str(device),
        num_gpus=count,
        bus_bytes_per_s=bus,
        version=torch.__version__,
    )


def read_ranks(directory, count):
    found = []
    for rank in range(count):
        try:
            with open(os.path.join(directory, "rank-%d.json" % rank)) as file:
                found.append(json.load(file))
        except OSError:
            found.append({"step": "start"})
    return found


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def main():
    num_ranks, limit_s = int(ARGUMENTS[0]), float(ARGUMENTS[1])
    result["wanted"] = ARGUMENTS[2:]
    if importlib.util.find_spec("torch") is None:
        result["absent"] = True
        return
    stage("all-reduce over %d ranks" % num_ranks)
    with tempfile.TemporaryDirectory() as directory:
        common = dict(
            os.environ,
            WORLD_SIZE=str(num_ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(free_port()),
        )
        if result["wanted"] == ["cpu"]:
            common["CUDA_VISIBLE_DEVICES"] = ""
        program = [sys.executable, os.path.abspath(__file__), "--rank", directory]
        ranks = [
            subprocess.Popen(program, env=dict(common, RANK=str(rank), LOCAL_RANK=str(rank)))
            for rank in range(num_ranks)
        ]
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            codes = [process.poll() for process in ranks]
            # One that has failed keeps the others waiting for ever.
            if None not in codes or any(codes):
                break
            time.sleep(0.05)
        codes = [process.poll() for process in ranks]
        said = read_ranks(directory, num_ranks)
        for process in ranks:
            process.kill()
            process.wait()
    result["ranks"] = said
    failed = [rank for rank, code in enumerate(codes) if code]
    if failed:
        rank = failed[0]
        raise RuntimeError(
            "rank %d ended with exit code %d at: %s" % (rank, codes[rank], said[rank]["step"])
        )
    hung = [rank for rank, code in enumerate(codes) if code is None]
    if hung:
        # Those that have come least far keep the others waiting.
        steps = ["start", "import", "meeting the others", "adding up", "timing", "done"]
        first = min(steps.index(rank["step"]) for rank in said)
        late = [rank for rank in hung if steps.index(said[rank]["step"]) == first] or hung
        names = ", ".join("rank %d" % rank for rank in late)
        result["all_reduce"] = {
            "problem": "hung",
            "detail": "%s at: %s, after %g s" % (names, steps[first], limit_s),
        }
        return
    result["version"] = said[0]["version"]
    on_gpu = said[0]["device"] != "cpu"
    name = "%d ranks by %s" % (num_ranks, "nccl" if on_gpu else "gloo")
    found = {"name": name, "kind": "gpu" if on_gpu else "cpu"}
    found["bus_bytes_per_s"] = min(rank["bus_bytes_per_s"] for rank in said)
    result["devices"].append(found)
    if not on_gpu and said[0]["num_gpus"] and result["wanted"] != ["cpu"]:
        result["cpu_because"] = "%d ranks need a GPU each, and %d can be seen" % (
            num_ranks,
            said[0]["num_gpus"],
        )
    wrong = [str(number) for number, rank in enumerate(said) if not rank["ok"]]
    if wrong:
        result["all_reduce"] = {"problem": "wrong", "detail": "on rank %s" % ", ".join(wrong)}
    if on_gpu:
        stage("copies between pairs")
        found["pairs"] = pairs(num_ranks)
    stage("done")


def pairs(count):
    """Copy between every two GPUs, and see what arrives."""
    import torch

    found = []
    for a in range(count):
        for b in range(count):
            if a == b:
                continue
            sent = torch.arange(1 << 24, device="cuda:%d" % a, dtype=torch.int32)
            best = float("inf")
            for _ in range(REPEATS):
                torch.cuda.synchronize(a)
                torch.cuda.synchronize(b)
                start = time.perf_counter()
                there = sent.to("cuda:%d" % b)
                torch.cuda.synchronize(a)
                torch.cuda.synchronize(b)
                best = min(best, time.perf_counter() - start)
            ok = bool(torch.equal(there.cpu(), sent.cpu()))
            if not ok:
                result["notes"].append("peer copy from cuda:%d to cuda:%d is wrong" % (a, b))
            found.append(
                {
                    "from": a,
                    "to": b,
                    "ok": ok,
                    "peer": torch.cuda.can_device_access_peer(a, b),
                    "bytes_per_s": 4.0 * (1 << 24) / best,
                }
            )
    return found


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
    as_rank(sys.argv[2])
elif __name__ == "__main__":
    RESULT, DEPTH, ARGUMENTS = sys.argv[1], sys.argv[2], sys.argv[3:]
    result = {"framework": "together", "stage": "import", "devices": [], "notes": [], "error": None}
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

"""All-reduces over several processes with PyTorch, and copies between every pair of GPUs.

    python all_reduce_probe.py RESULT quick|normal|deep [DEVICE ...]

See `harness` for the arguments and the result. The backend is NCCL where there is a GPU for each
rank, else Gloo. Started as ``--rank DIRECTORY``, the program is one of the ranks. It writes its
progress to a file of its own, so that ranks that hang can be named.
"""

import os
import socket
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


def as_rank(directory):
    """All-reduce as one rank, and write the result to this rank's file."""
    rank = int(os.environ["RANK"])
    say = teller(directory, rank)
    say(step="import")
    import torch
    import torch.distributed as dist

    world_size, count = int(os.environ["WORLD_SIZE"]), torch.cuda.device_count()
    on_gpu = count >= world_size
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    chip = uuid = None
    if on_gpu:
        torch.cuda.set_device(device)
        properties = torch.cuda.get_device_properties(device)
        chip = properties.name
        uuid = "GPU-%s" % properties.uuid if hasattr(properties, "uuid") else None
    else:
        torch.set_num_threads(1)
    say(step="rendezvous")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    say(step="all-reduce")
    positions = torch.arange(1 << 18, device=device)
    total = numbers_of(positions, rank).float()
    dist.all_reduce(total)
    expected = sum(numbers_of(positions, other).float() for other in range(world_size))
    ok = bool(torch.equal(total, expected))
    say(step="timing")
    size = MESSAGE_BYTES["gpu" if on_gpu else "cpu"]
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
    dist.barrier()
    dist.destroy_process_group()
    say(
        step="done",
        ok=ok,
        device=str(device),
        chip=chip,
        uuid=uuid,
        message_bytes=size,
        ran_on=str(message.device),
        num_gpus=count,
        bus_bytes_per_s=bus_rate(world_size, size, best),
        version=torch.__version__,
    )


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def main(probe):
    if probe.lacks("torch"):
        return
    count, limit_s = num_ranks(), ranks_limit_s()
    probe.stage("all-reduce over %d ranks" % count)
    with tempfile.TemporaryDirectory(dir=probe.directory) as directory:
        common = dict(
            os.environ,
            WORLD_SIZE=str(count),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(free_port()),
        )
        if probe.wanted == ["cpu"]:
            common["CUDA_VISIBLE_DEVICES"] = ""
        program = [sys.executable, os.path.abspath(__file__), "--rank", directory]
        ranks = [
            subprocess.Popen(program, env=dict(common, RANK=str(rank), LOCAL_RANK=str(rank)))
            for rank in range(count)
        ]
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            codes = [process.poll() for process in ranks]
            # A failed rank blocks the others for ever, so do not wait for them.
            if None not in codes or any(codes):
                break
            time.sleep(0.05)
        codes = [process.poll() for process in ranks]
        reports = read_ranks(directory, count)
        for process in ranks:
            process.kill()
            process.wait()
    probe.result["ranks"] = reports
    failed = [rank for rank, code in enumerate(codes) if code]
    if failed:
        rank = failed[0]
        raise RuntimeError(
            "rank %d ended with exit code %d at: %s" % (rank, codes[rank], reports[rank]["step"])
        )
    hung = [rank for rank, code in enumerate(codes) if code is None]
    if hung:
        probe.result["all_reduce"] = {
            "problem": "hung",
            "detail": "%s at: %s, after %g s" % (latest(reports, hung) + (limit_s,)),
        }
        return
    probe.result["version"] = reports[0]["version"]
    on_gpu = reports[0]["device"] != "cpu"
    name = "%d ranks by %s" % (count, "nccl" if on_gpu else "gloo")
    entry = probe.device(name, on_gpu)
    entry["bus_bytes_per_s"] = min(rank["bus_bytes_per_s"] for rank in reports)
    entry["message_bytes"] = reports[0]["message_bytes"]
    if on_gpu:
        entry["chips"] = [rank["chip"] for rank in reports]
        entry["uuids"] = [rank["uuid"] for rank in reports]
    for number, rank in enumerate(reports):
        probe.ran(entry, "all_reduce by rank %d of %d" % (number, count), rank["ran_on"])
    if not on_gpu and reports[0]["num_gpus"] and probe.wanted != ["cpu"]:
        probe.result["cpu_because"] = "%d ranks need a GPU each, and %d can be seen" % (
            count,
            reports[0]["num_gpus"],
        )
    wrong = [str(number) for number, rank in enumerate(reports) if not rank["ok"]]
    if wrong:
        probe.result["all_reduce"] = {"problem": "wrong", "detail": "on rank %s" % ", ".join(wrong)}
    if on_gpu:
        probe.stage("copies between pairs")
        entry["pairs"] = pairs(probe, count)
    probe.stage("done")


def pairs(probe, count):
    """Copy between every two GPUs, and compare the copies with the originals."""
    import torch

    copies = []
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
                probe.result["notes"].append("peer copy from cuda:%d to cuda:%d is wrong" % (a, b))
            copies.append(
                {
                    "from": a,
                    "to": b,
                    "ok": ok,
                    "peer": torch.cuda.can_device_access_peer(a, b),
                    "bytes_per_s": 4.0 * (1 << 24) / best,
                }
            )
    return copies


if __name__ == "__main__":
    run("all-reduce", main, as_rank)

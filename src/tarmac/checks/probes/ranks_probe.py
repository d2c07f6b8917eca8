"""One of several ranks that all-reduce with PyTorch, in the groups that its commands name.

    python ranks_probe.py LOCAL_RANK

Reads commands from standard input and writes answers to standard output, a line of JSON each. The
first answer has the facts about PyTorch. A command names a group: its rendezvous, the rank of this
process in it, and its size. So a process that hangs can be restarted while the others stay.
"""

import datetime
import json
import os
import sys
import threading
import time

from harness import MESSAGE_BYTES, numbers_of

REPEATS = 9

# Heartbeats distinguish a stopped process, or one that a driver blocks, from one that waits.
SIGN_EVERY_S = 0.5


def facts(torch, local_rank):
    """Return the facts about PyTorch and about this rank's GPU."""
    count = torch.cuda.device_count()
    values = {
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "nccl": None,
        "gpu": None,
        "gpu_name": None,
    }
    if count:
        index = local_rank % count
        properties = torch.cuda.get_device_properties(index)
        values["gpu"] = str(getattr(properties, "uuid", index))
        values["gpu_name"] = properties.name
        values["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return values


def add_up(torch, local_rank, command, say):
    """All-reduce in a group; return whether the sums are right, and the seconds of each repeat."""
    import torch.distributed as dist

    rank, count, on_gpu = command["rank"], command["count"], command["on_gpu"]
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
    limit = datetime.timedelta(seconds=command["limit_s"])
    say(step="rendezvous")
    store = dist.TCPStore(command["host"], command["port"], count, rank == 0, timeout=limit)
    dist.init_process_group(
        "nccl" if on_gpu else "gloo", store=store, rank=rank, world_size=count, timeout=limit
    )
    say(step="all-reduce")
    positions = torch.arange(1 << 18, device=device)
    total = numbers_of(positions, rank).float()
    dist.all_reduce(total)
    expected = sum(numbers_of(positions, other).float() for other in range(count))
    ok = bool(torch.equal(total, expected))
    say(step="timing")
    size = MESSAGE_BYTES["gpu" if on_gpu else "cpu"]
    message = torch.zeros(size // 4, device=device)
    dist.all_reduce(message)
    seconds = []
    for _ in range(REPEATS):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(message)
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    # The store ends with the process of rank 0, so all ranks must be done before that exits.
    dist.barrier()
    dist.destroy_process_group()
    return {"ok": ok, "seconds": seconds, "bytes": size}


def main():
    local_rank = int(sys.argv[1])
    # Redirect the output of libraries to standard error, away from the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(**message):
        with lock:
            answers.write(json.dumps(message) + "\n")
            answers.flush()

    def give_signs():
        while True:
            time.sleep(SIGN_EVERY_S)
            say(sign=True)

    say(step="import")
    threading.Thread(target=give_signs, daemon=True).start()
    try:
        import torch

        values = facts(torch, local_rank)
    except Exception as error:
        say(error="%s: %s" % (type(error).__name__, error))
        return
    torch.set_num_threads(1)
    say(facts=values)
    for line in sys.stdin:
        try:
            say(answer=add_up(torch, local_rank, json.loads(line), say))
        except Exception as error:
            say(error="%s: %s" % (type(error).__name__, str(error).splitlines()[0]))


if __name__ == "__main__":
    main()

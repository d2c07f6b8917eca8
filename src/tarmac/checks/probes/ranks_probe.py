"""One of several ranks that add numbers up together by PyTorch, in the groups that it is told.

    python ranks_probe.py LOCAL_RANK

Reads commands and writes answers, a line of JSON each: standard input and output. First it says
what PyTorch is here. A command names a group: where its members meet, which of them this is, and
how many there are. So one that hangs can be ended and started anew, while the others stay.
"""

import datetime
import json
import os
import sys
import threading
import time

from harness import MESSAGE_BYTES, numbers_of

REPEATS = 9

# So a stopped process, or one that a driver holds, is told from one that waits for others.
SIGN_EVERY_S = 0.5


def facts(torch, local_rank):
    """Return what PyTorch is here, and which GPU is this rank's."""
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
    """All-reduce in a group; return whether the sums are right, and each one's seconds."""
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
    # The store ends with its first member, whom the others must not need any more.
    dist.barrier()
    dist.destroy_process_group()
    return {"ok": ok, "seconds": seconds, "bytes": size}


def main():
    local_rank = int(sys.argv[1])
    # What libraries print goes where errors go.
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

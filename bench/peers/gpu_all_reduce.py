"""One rank of timed all-reduces by NCCL. The first prints one JSON line.

python gpu_all_reduce.py RANK RANKS PORT
"""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.distributed as dist

rank, count, port = map(int, sys.argv[1:])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
dist.init_process_group(
    "nccl", f"tcp://127.0.0.1:{port}", rank=rank, world_size=count, device_id=device
)
found = {}
for num_bytes, repeats in ((2_679_000, 200), (2**28, 20)):
    values = torch.ones(num_bytes // 4, device=device)
    for _ in range(5):
        dist.all_reduce(values)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        dist.all_reduce(values)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - started) / repeats
    # What each link carries, as NCCL's own tests count it.
    bus = 2 * (count - 1) / count * num_bytes / seconds / 1e9
    found[f"{num_bytes} bytes"] = {"us": 1e6 * seconds, "bus_gb_s": bus}
if rank == 0:
    print(json.dumps(found))
dist.destroy_process_group()

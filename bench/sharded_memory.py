"""The memory of a rank that trains in shards, beside that of one that has all of a model.

    python bench/sharded_memory.py [--workload gpt2-124m] [--batch-size 2] [--steps 2] [--ranks 2]

On CPUs, in fp32, by Gloo: one process of `single`, then ranks of `ddp` and `fsdp`, and `fsdp` with
activation checkpointing, of the same global batch. The bytes of parameters, gradients and optimizer
state are counted after the last step; the peak is the process's resident memory less what it had
before the training, with data, activations and what PyTorch's allocator keeps.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from _harness import table, write_results

RANK = Path(__file__).parent / "peers" / "memory_of_rank.py"
PARTS = ("parameters", "gradients", "optimizer")


def measure(strategy: str, ranks: int, given: argparse.Namespace) -> list[dict[str, int]]:
    """Train by ranks; return the bytes that each had."""
    name, *more = strategy.split()
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        what = [folder, given.workload, name, str(given.batch_size), str(given.steps), *more]
        done = subprocess.run(
            [sys.executable, *(start if ranks > 1 else []), str(RANK), *what],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"{strategy} failed:\n{done.stderr[-2000:]}")
        found = sorted(Path(folder).glob("rank-*.json"))
        return [json.loads(path.read_text()) for path in found]


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="gpt2-124m")
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args()
    found = {"single": measure("single", 1, given)}
    for strategy in ("ddp", "fsdp", "fsdp again"):
        found[strategy] = measure(strategy, given.ranks, given)
    rows = []
    for strategy, ranks in found.items():
        most = {part: max(rank[part] for rank in ranks) for part in (*PARTS, "peak")}
        state = sum(most[part] for part in PARTS)
        rows.append(
            [
                strategy.replace(" again", ", activation checkpointing"),
                str(len(ranks)),
                *(f"{most[part] / 2**20:.0f}" for part in PARTS),
                f"{state / 2**20:.0f}",
                f"{most['peak'] / 2**20:.0f}",
            ]
        )
    header = ["", "ranks", *PARTS, "these three", "peak"]
    text = (
        f"{given.workload}, a global batch of {given.batch_size}, {given.steps} steps in fp32; MiB "
        f"of the rank that has most.\n\n{table(header, rows)}"
    )
    write_results("sharded-memory", {"asked": vars(given), "bytes": found}, text)


if __name__ == "__main__":
    main()

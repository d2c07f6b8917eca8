"""One thread against two by the size of a step: where the number of threads draws its line.

    python bench/threads_rule.py

Trains two-hidden-layer networks of many widths and batch sizes, a step with one thread after one
with two, and shows the fastest and the median step beside its matrix work. On a machine that others
use too, the fastest of many is what free cores take, and the median what busy ones do.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import nn

from _harness import table, write_results

if TYPE_CHECKING:
    from collections.abc import Callable

_NUM_INPUTS = 64
_SIZES = ((64, 32), (128, 32), (128, 128), (256, 64), (256, 128), (256, 256), (512, 128))


def make_step(width: int, batch_size: int) -> Callable[[], None]:
    """Return a function that does a training step of a new network."""
    layers = nn.Linear(_NUM_INPUTS, width), nn.Linear(width, width), nn.Linear(width, 10)
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    inputs, targets = torch.randn(batch_size, _NUM_INPUTS), torch.randint(10, (batch_size,))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def measure(step: Callable[[], None], num_rounds: int) -> dict[int, list[float]]:
    """Return the seconds of steps by the number of threads."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(num_rounds):
        for threads, seconds in times.items():
            torch.set_num_threads(threads)
            step()
            started = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - started)
    return times


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, help="Steps of each; default 30.")
    rounds = parser.parse_args().rounds
    rows = []
    for width, batch_size in _SIZES:
        times = measure(make_step(width, batch_size), rounds)
        flops = 6 * batch_size * width * (_NUM_INPUTS + width + 10)
        shown = [
            f"{1e3 * summed(times[threads]):.2f}"
            for summed in (min, statistics.median)
            for threads in times
        ]
        ratio = f"{min(times[2]) / min(times[1]):.2f}"
        rows.append((str(width), str(batch_size), f"{flops / 1e6:.0f}", *shown, ratio))
    names = (
        *("width", "batch", "MFLOP a step"),
        *("1 thread, fastest ms", "2 threads", "1 thread, median ms", "2 threads"),
        "2 / 1, fastest",
    )
    text = f"PyTorch {torch.__version__}, n = {rounds}.\n\n{table(names, rows)}"
    write_results("threads-rule", {"rounds": rounds, "rows": rows}, text)


if __name__ == "__main__":
    main()

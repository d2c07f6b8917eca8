"""fp32 against bf16 by the size of a network: where ``--precision auto`` draws its line.

    python bench/precision_rule.py
    python bench/precision_rule.py --cpu-time --rounds 3

The second is for a machine that others use too: it takes the CPU time of one thread, which their
work hardly changes, instead of the time on the clock.

Trains two-hidden-layer networks of many widths and batch sizes on random data with the engine
itself, alternating the precisions, and shows the step times beside the matrix work of a step. The
rule takes bf16 where what bf16's faster products save of that work is above what the casts cost.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

import tarmac
from _harness import Spread, table, write_results
from tarmac.data import Dataset, Split
from tarmac.training import Silent
from tarmac.training.planning.products import measure_bf16_speedup
from tarmac.workloads import Adam, Recipe, Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUM_INPUTS = 256
_STEPS = 60


def make_workload(width: int, batch_size: int) -> Workload:
    """Make a network of two hidden layers on random data."""
    rng = np.random.default_rng(0)

    def dataset() -> Dataset:
        size = batch_size * _STEPS
        inputs = rng.integers(0, 256, (size, _NUM_INPUTS), np.uint8)
        split = Split(inputs, rng.integers(0, 10, size))
        return Dataset(name="random", train=split, test=split, num_classes=10)

    def model() -> nn.Module:
        return nn.Sequential(
            nn.Linear(_NUM_INPUTS, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )

    optimizer = Adam(learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8)
    return Workload(
        name=f"random-{width}",
        summary="",
        dataset=dataset,
        model=model,
        recipe=Recipe(optimizer=optimizer, batch_size=batch_size, epochs=3),
    )


class Stopwatch(Silent):
    """Takes the CPU time of each epoch but the first, which warms up.

    Attributes:
        cpu_s: Of each.
    """

    def __init__(self) -> None:
        self.cpu_s: list[float] = []
        self._since: float | None = None

    def epoch_done(self, row: Mapping[str, float]) -> None:  # noqa: ARG002 - the interface's
        """Note the time since the epoch before."""
        now = time.process_time()
        if self._since is not None:
            self.cpu_s.append(now - self._since)
        self._since = now


def main() -> None:
    """Measure every size in both precisions and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true")
    arguments = parser.parse_args()
    if arguments.cpu_time:
        torch.set_num_threads(1)
    rows, data = [], []
    speedup = measure_bf16_speedup()
    with tempfile.TemporaryDirectory() as output:
        for batch_size in (32, 128, 512):
            for width in (32, 64, 128, 256, 512):
                times: dict[str, list[float]] = {"fp32": [], "bf16": []}
                for _ in range(arguments.rounds):
                    for precision, measured in times.items():
                        watch = Stopwatch()
                        run = tarmac.train(
                            make_workload(width, batch_size),
                            output=output,
                            precision=precision,
                            device="cpu",
                            checkpoint_every=3,
                            reporter=watch,
                        )
                        clock_s = [row["seconds"] for row in run.history]
                        best_s = min(watch.cpu_s if arguments.cpu_time else clock_s)
                        measured.append(best_s / _STEPS * 1e3)
                work = _NUM_INPUTS * width + width * width + width * 10
                mflop = 6 * work * batch_size / 1e6
                spreads = {name: Spread.of(measured) for name, measured in times.items()}
                ratio = spreads["fp32"].median / spreads["bf16"].median
                data.append({"batch_size": batch_size, "width": width, "mflop": mflop, **times})
                rows.append((mflop, batch_size, width, spreads, ratio))
    shown = [
        [
            f"{mflop:.0f}",
            str(batch_size),
            str(width),
            spreads["fp32"].show(3),
            spreads["bf16"].show(3),
            f"{ratio:.2f}",
        ]
        for mflop, batch_size, width, spreads, ratio in sorted(rows, key=lambda row: row[0])
    ]
    header = ["MFLOP a step", "batch", "width", "fp32 ms", "bf16 ms", "fp32 / bf16"]
    measure = (
        "CPU time of one thread, on a machine with other work"
        if arguments.cpu_time
        else f"{torch.get_num_threads()} threads"
    )
    text = (
        f"PyTorch {torch.__version__}, n = {arguments.rounds}, {measure}. bf16 products alone: "
        f"{speedup:.2f} times the speed of fp32's.\n\n{table(header, shown)}"
    )
    write_results(
        "precision-rule", {"measure": measure, "bf16_speedup": speedup, "sizes": data}, text
    )


if __name__ == "__main__":
    main()

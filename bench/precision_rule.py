"""fp32 against bf16 by the size of a network: where ``--precision auto`` draws its line.

    python bench/precision_rule.py

Trains two-hidden-layer networks of many widths and batch sizes on random data with the engine
itself, alternating the precisions, and shows the step times beside the matrix work of a step. The
rule takes bf16 where what bf16's faster products save of that work is above what the casts cost.
"""

from __future__ import annotations

import tempfile

import numpy as np
import torch
from torch import nn

import tarmac
from _harness import Spread, table, write_results
from tarmac.data import Dataset, Split
from tarmac.training.planning.products import measure_bf16_speedup
from tarmac.workloads import Adam, Recipe, Workload

_NUM_INPUTS = 256
_STEPS = 60
_ROUNDS = 5


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


def main() -> None:
    """Measure every size in both precisions and write the results."""
    rows, data = [], []
    speedup = measure_bf16_speedup()
    with tempfile.TemporaryDirectory() as output:
        for batch_size in (32, 128, 512):
            for width in (32, 64, 128, 256, 512):
                times: dict[str, list[float]] = {"fp32": [], "bf16": []}
                for _ in range(_ROUNDS):
                    for precision, found in times.items():
                        run = tarmac.train(
                            make_workload(width, batch_size),
                            output=output,
                            precision=precision,
                            device="cpu",
                            checkpoint_every=3,
                        )
                        found.append(min(row["seconds"] for row in run.history) / _STEPS * 1e3)
                work = _NUM_INPUTS * width + width * width + width * 10
                mflop = 6 * work * batch_size / 1e6
                spreads = {name: Spread.of(found) for name, found in times.items()}
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
    text = (
        f"PyTorch {torch.__version__}, n = {_ROUNDS}. bf16 products alone: {speedup:.2f} times the "
        f"speed of fp32's.\n\n{table(header, shown)}"
    )
    write_results("precision-rule", {"bf16_speedup": speedup, "sizes": data}, text)


if __name__ == "__main__":
    main()

"""An epoch by each optimizer, here and in another checkout of Tarmac.

    git worktree add ../before COMMIT
    python bench/optimizers.py --against ../before/src [--rounds 3] [--epochs 4]

`mlp` as it is by default, 784-512-512-10 on MNIST in batches of 128, is the network of `mnist-mlp`,
which trains it by RMSprop. Both sides train it in fp32 on the CPU from the same seed, as a user
starts them, each in a process of its own, alternating, optimizer after optimizer, round after
round. The figure is the time of an epoch, of all but the first. TARMAC_DATA must hold MNIST.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from _harness import TARMAC, Child, Spread, run_child, table, write_results
from tarmac.workloads.mlp import workload

HERE = Path(__file__).parents[1] / "src"


def run(source: Path, optimizer: str, seed: int, epochs: int) -> Child:
    """Train with the Tarmac of a directory, and take the epochs' times from the run."""
    with tempfile.TemporaryDirectory() as output:
        asked = ("--set", f"optimizer={optimizer}", "--epochs", str(epochs), "--seed", str(seed))
        kept = ("--precision", "fp32", "--devices", "cpu", "--json", "--output", output)
        child = run_child(
            [*TARMAC, "train", "mlp", *asked, *kept],
            {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])},
        )
        rows = (Path(child.result["path"]) / "metrics.jsonl").read_text().splitlines()
    epoch_s = [json.loads(row)["seconds"] for row in rows]
    result = {"epoch_s": epoch_s[1:], "test_accuracy": child.result["metrics"]["test_accuracy"]}
    return Child(child.seconds, child.peak_rss_bytes, result)


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, required=True, help="the other one's src")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4)
    given = parser.parse_args()
    sides = {"here": HERE, "before": given.against.resolve()}
    found: dict[tuple[str, str], list[Child]] = {
        (optimizer, side): [] for optimizer in workload.optimizers for side in sides
    }
    for seed in range(given.rounds):
        for (optimizer, side), children in found.items():
            children.append(run(sides[side], optimizer, seed, given.epochs))
    spread = {
        key: Spread.of([s for child in children for s in child.result["epoch_s"]])
        for key, children in found.items()
    }
    rows = []
    for optimizer in workload.optimizers:
        here, before = spread[optimizer, "here"], spread[optimizer, "before"]
        accuracies = [
            [child.result["test_accuracy"] for child in found[optimizer, side]] for side in sides
        ]
        rows.append(
            [
                optimizer,
                here.show(3),
                before.show(3),
                f"{here.median / before.median:.2f}",
                "the same" if accuracies[0] == accuracies[1] else "others",
            ]
        )
    header = ["optimizer", "s/epoch here", "s/epoch before", "x", "accuracies"]
    head = (
        f"mlp, 784-512-512-10 on MNIST, fp32, {given.epochs} epochs, {given.rounds} rounds, "
        "alternating; medians of all epochs but the first, with the lowest and highest in "
        "brackets.\n\n"
    )
    figures = {
        f"{optimizer}, {side}": [child.result for child in children]
        for (optimizer, side), children in found.items()
    }
    write_results("optimizers", figures, head + table(header, rows))


if __name__ == "__main__":
    main()

"""A workload's test accuracy and training time over many seeds.

python bench/accuracy.py WORKLOAD [--seeds 10] [--precision fp32]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile

from _harness import TARMAC, Spread, run_child, table, write_results


def main() -> None:
    """Train once per seed and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--precision", default="auto")
    given = parser.parse_args()
    accuracies, train_s, process_s = [], [], []
    expectation = None
    with tempfile.TemporaryDirectory() as output:
        for seed in range(given.seeds):
            command = [*TARMAC, "train", given.workload, "--json", "--seed", str(seed)]
            child = run_child([*command, "--precision", given.precision, "--output", output])
            expectation = child.result["expectation"]
            accuracies.append(child.result["metrics"]["test_accuracy"])
            train_s.append(child.result["metrics"]["train_seconds"])
            process_s.append(child.seconds)
            print(f"seed {seed}: {accuracies[-1]:.4f}", file=sys.stderr, flush=True)
    mean = statistics.mean(accuracies)
    deviation = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
    row = [
        given.workload,
        given.precision,
        str(given.seeds),
        f"{mean:.4f} ± {deviation:.4f}",
        f"{min(accuracies):.4f} to {max(accuracies):.4f}",
        "" if expectation is None else f"{expectation['at_least']:g}",
        Spread.of(train_s).show(),
        Spread.of(process_s).show(),
    ]
    header = [
        "workload",
        "precision",
        "n",
        "mean ± sd",
        "range",
        "at least",
        "train s",
        "process s",
    ]
    data = {"accuracy": accuracies, "train_s": train_s, "process_s": process_s}
    write_results(f"accuracy-{given.workload}", data, table(header, [row]), gpu=True)


if __name__ == "__main__":
    main()

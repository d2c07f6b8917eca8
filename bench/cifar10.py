"""Accuracy and training time of a CIFAR-10 workload over seeds, and of which copy of the data.

    python bench/cifar10.py --data "JPEG copy" [--workload cifar10-fast] [--seeds 5] [--output DIR]

Each seed is a run below DIR, kept there: those that are completed are not trained again, and those
that were interrupted go on, so a series can be made in parts. The page is written after every seed.
TARMAC_DATA must hold CIFAR-10; ``--data`` says whether as published or what was done to it, which
no file tells.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tarmac
from _harness import Spread, table, write_results
from tarmac.runs import Run

if TYPE_CHECKING:
    from collections.abc import Mapping


def main() -> None:
    """Train what is missing and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="the copy of the data: published, JPEG copy")
    parser.add_argument("--workload", default="cifar10-fast")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--output", type=Path, default=Path("runs/cifar10"))
    given = parser.parse_args()
    for seed in range(given.seeds):
        earlier = runs_by_seed(given.output, given.workload).get(seed)
        if earlier is None:
            tarmac.train(
                given.workload,
                seed=seed,
                devices=given.devices,
                precision=given.precision,
                output=given.output,
            )
        elif earlier.status != "completed":
            tarmac.resume(earlier.path)
        report(given.workload, given.data, runs_by_seed(given.output, given.workload))


def runs_by_seed(output: Path, workload: str) -> dict[int, Run]:
    """Return the whole trainings of a workload below a directory; of a seed's, a completed one."""
    found: dict[int, Run] = {}
    for path in sorted(output.glob(f"{workload}-*")):
        run = Run.open(path)
        is_whole = "recipe was changed" not in (run.record.expectation or {}).get("text", "")
        if is_whole and (run.record.seed not in found or run.status == "completed"):
            found[run.record.seed] = run
    return found


def report(workload: str, data: str, runs: Mapping[int, Run]) -> None:
    """Write the page of the completed runs."""
    done = [run for _, run in sorted(runs.items()) if run.status == "completed"]
    if not done:
        return
    accuracies = [run.metrics["test_accuracy"] for run in done]
    seconds = [run.metrics["train_seconds"] for run in done]
    expectation = done[0].record.expectation or {}
    row = [
        workload,
        data,
        ", ".join(sorted({run.record.device["name"] for run in done})),
        ", ".join(sorted({run.record.configuration["precision"] for run in done})),
        str(len(done)),
        f"{statistics.mean(accuracies):.4f} ± {statistics.stdev(accuracies):.4f}"
        if len(done) > 1
        else f"{accuracies[0]:.4f}",
        f"{min(accuracies):.4f} to {max(accuracies):.4f}",
        f"{expectation['at_least']:g}" if expectation else "",
        Spread.of(seconds).show(),
    ]
    header = [
        *("workload", "data", "device", "precision", "n", "mean ± sd", "range", "at least"),
        "train s",
    ]
    kept = [
        {"seed": run.record.seed, "accuracy": accuracy, "train_s": train_s}
        for run, accuracy, train_s in zip(done, accuracies, seconds, strict=True)
    ]
    print(f"{len(done)} of {len(runs)} runs are completed", file=sys.stderr, flush=True)
    text = f"Data: {data}.\n\n{table(header, [row])}"
    copy = "-".join(data.lower().split())
    write_results(f"accuracy-{workload}-{copy}", {"data": data, "runs": kept}, text)


if __name__ == "__main__":
    main()

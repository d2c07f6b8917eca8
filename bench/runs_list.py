"""How long `tarmac runs list` takes for many runs: the first time, again, and without its index.

Example:
    python bench/runs_list.py --runs 10000
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import table, write_results
from tarmac.runs import TRAINING, Catalogue, Run


def make_runs(output: Path, number: int) -> None:
    """Make trainings that have ended: one by Tarmac, and copies of it under other names."""
    run = Run.create(
        output,
        workload="mnist-mlp",
        command=["tarmac", "train", "mnist-mlp"],
        configuration={"epochs": 20, "batch_size": 128, "optimizer": "adam"},
        dataset={"name": "mnist", "train_size": 60000, "test_size": 10000},
        device={"name": "cpu"},
        versions={"torch": "2.13.0", "python": platform.python_version()},
        seed=0,
        git=None,
        expectation={"text": "98 % after 20 epochs", "met": True},
        name="run-00000",
    )
    run.update(status="completed", elapsed_s=31.4, metrics={"test_accuracy": 0.9817})
    for place in range(1, number):
        copy = output / f"run-{place:05d}"
        copy.mkdir()
        shutil.copyfile(run.path / "run.json", copy / "run.json")
    # As if they had ended a while ago: what is younger than some seconds is always read.
    past = time.time() - 3600
    for record in output.glob("*/run.json"):
        os.utime(record, (past, past))


def seconds_of(output: Path, cache: Path) -> float:
    """Return how long the command takes, from its start to its end."""
    command = [sys.executable, "-m", "tarmac", "runs", "list", "--output", str(output)]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    took = time.perf_counter() - began
    assert done.returncode == 0
    return took


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        output, cache = Path(directory) / "runs", Path(directory) / "cache"
        output.mkdir()
        make_runs(output, arguments.runs)
        first = seconds_of(output, cache)
        again = [seconds_of(output, cache) for _ in range(arguments.repeats)]
        began = time.perf_counter()
        Catalogue((TRAINING,), output).read(lambda run: run.kind.summarize(run.path))
        unindexed = time.perf_counter() - began
        (output / "empty").mkdir()
        nothing = [seconds_of(output / "empty", cache) for _ in range(arguments.repeats)]
    figures = {
        "runs": arguments.runs,
        "first_s": round(first, 3),
        "again_median_s": round(statistics.median(again), 3),
        "again_slowest_s": round(max(again), 3),
        "n": arguments.repeats,
        "of_no_runs_s": round(statistics.median(nothing), 3),
        "reading_all_without_index_s": round(unindexed, 3),
    }
    rows = [[name.replace("_", " "), str(value)] for name, value in figures.items()]
    write_results("runs-list", figures, table(["what", "value"], rows))


if __name__ == "__main__":
    main()

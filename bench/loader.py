"""A PyTorch `DataLoader` as a feed of `tarmac train`, against the same loader in a plain loop.

    python bench/loader.py [--rounds 3]

Both train a network that takes less time than its data (`peers/_loader_task.py`) on the CPU in
fp32, each in a process of its own, one after another, round after round, without workers and with
two: small arrays, which take some microseconds each, so that the feed's own part is seen, and
JPEGs, which take as long as images do. The figure is samples a second over an epoch but the first,
in which workers start.
Tarmac runs as a user starts it, with its checkpoints, and draws samples so that a run that was
stopped goes on with the same ones; the plain loop does not. It seeds the generators that samples
draw from for each sample to that end, some 3 microseconds for PyTorch's, which small arrays show.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from _harness import TARMAC, Child, Spread, run_child, table, write_results

PEERS = Path(__file__).parent / "peers"
sys.path.append(str(PEERS))
WORKERS = (0, 2)


def run_tarmac(name: str, workers: int, seed: int) -> Child:
    """Train by the command line, and take the epochs' times from the run."""
    with tempfile.TemporaryDirectory() as output:
        workload = f"{PEERS / 'loader_tarmac.py'}:{name}_{workers}"
        command = [*TARMAC, "train", workload, "--json", "--precision", "fp32", "--devices", "cpu"]
        child = run_child([*command, "--seed", str(seed), "--output", output])
        run = Path(child.result["path"])
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        record = json.loads((run / "run.json").read_text())
    versions = {name: record["versions"][name] for name in ("tarmac", "torch")}
    result = {"epoch_s": [row["seconds"] for row in rows], "versions": versions}
    return Child(child.seconds, child.peak_rss_bytes, result)


def main() -> None:
    """Run the rounds and write the results."""
    from _loader_task import BATCH_SIZE, EPOCHS, TASKS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    cases = [(name, workers) for name in TASKS for workers in WORKERS]
    found: dict[tuple[str, int, str], list[Child]] = {
        (*case, each): [] for case in cases for each in ("Tarmac", "PyTorch loop")
    }
    for seed in range(given.rounds):
        for name, workers in cases:
            found[name, workers, "Tarmac"].append(run_tarmac(name, workers, seed))
            plain = [sys.executable, str(PEERS / "loader_plain.py"), name, str(workers), str(seed)]
            found[name, workers, "PyTorch loop"].append(run_child(plain))
    rate = {
        key: Spread.of([TASKS[key[0]].count / s for c in cs for s in c.result["epoch_s"][1:]])
        for key, cs in found.items()
    }
    rows = [
        [
            name,
            str(workers),
            each,
            rate[name, workers, each].show(0),
            f"{rate[name, workers, each].median / rate[name, workers, 'PyTorch loop'].median:.2f}",
            f"{statistics.median(child.seconds for child in children):.1f}",
            f"{max(child.peak_rss_bytes for child in children) / 2**20:.0f}",
        ]
        for (name, workers, each), children in found.items()
    ]
    header = ["samples", "workers", "", "samples/s", "x", "process s", "peak MiB"]
    sizes = ", ".join(f"{task.count} {name}" for name, task in TASKS.items())
    head = (
        f"Epochs of {sizes} in batches of {BATCH_SIZE}, {EPOCHS} of them, n = {given.rounds}, "
        "alternating, each in a process of its own; medians, with the lowest and highest in "
        "brackets. fp32.\n\n"
    )
    figures = {
        f"{name}, {workers} workers, {each}": {
            "samples_per_s": rate[name, workers, each].values,
            "children": [child.result for child in children],
        }
        for (name, workers, each), children in found.items()
    }
    write_results("loader", figures, head + table(header, rows))


if __name__ == "__main__":
    main()

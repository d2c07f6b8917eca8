"""Pages of trainings, jobs and searches: time from start to file, and size.

    python bench/report.py [--rounds 5]

The runs are made by hand, as they would leave them: of a training a line for each epoch, 2,000
samples of 8 GPUs, mistakes with their pictures; of a job a sweep of which one task in 50 failed; of
a search networks over ten parameters. `tarmac report` is a process of its own, from its start to
its end; rendering alone is timed in this one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from _harness import TARMAC, Spread, table, write_results
from report_runs import make_job, make_search, make_training

if TYPE_CHECKING:
    from collections.abc import Callable

# How long each is: in epochs, tasks and networks.
SIZES: dict[str, tuple[Callable[[Path, int], Path], str, tuple[int, ...]]] = {
    "training": (make_training, "epochs", (10, 1000, 10_000)),
    "job": (make_job, "tasks", (100, 1000, 10_000)),
    "search": (make_search, "networks", (20, 1000)),
}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds

    from tarmac.pages import report

    rows: list[list[str]] = []
    results: dict[str, dict[str, object]] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        for kind, (make, unit, sizes) in SIZES.items():
            for size in sizes:
                run = make(Path(directory), size)
                page = run / "report.html"
                whole, rendering = [], []
                for _ in range(rounds):
                    started = time.perf_counter()
                    command = [*TARMAC, "report", str(run), "--html", str(page)]
                    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                    whole.append(time.perf_counter() - started)
                    started = time.perf_counter()
                    report([run])
                    rendering.append(time.perf_counter() - started)
                spreads = [Spread.of(whole).show(), Spread.of(rendering).show()]
                length = page.stat().st_size
                rows.append([kind, f"{size:,} {unit}", *spreads, f"{length / 1e3:.0f}"])
                results.setdefault(kind, {})[str(size)] = {
                    "whole_s": whole,
                    "rendering_s": rendering,
                    "page_bytes": length,
                }
    columns = ["of", "size", "tarmac report, s", "rendering alone, s", "page, kB"]
    text = f"{rounds} rounds; median (lowest to highest). Load of the machine when it began: "
    text += f"{load:.1f}.\n\n{table(columns, rows)}"
    write_results("report", {"rounds": rounds, "load": load, "pages": results}, text)


if __name__ == "__main__":
    main()

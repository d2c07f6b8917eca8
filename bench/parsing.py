"""Reading job files: documents per second, from text to jobs.

    python bench/parsing.py [--seconds 3]

Reads Batch Shipyard's published recipes (config, credentials, pool and jobs are four documents),
HKube's published definitions, a job of Tarmac's own, and a task factory of 10,000 tasks. The files
are in memory; the first reading, which loads the table of properties, is not counted.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from _harness import table, write_results
from tarmac.documents import parse_document
from tarmac.formats import read_any, read_shipyard

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"
OWN = """
name: mnist
environment: {python: "3.11", requirements: [torch==2.13.0]}
resources: {cpus: 2, memory: 4GiB, gpus: 1}
tasks:
  - {name: fetch, command: [curl, -O, "https://example.org/x"]}
  - name: train
    needs: [fetch]
    command: python train.py --lr {{ lr }}
    sweep: {grid: {lr: [0.1, 0.01]}}
"""
FACTORY = """
job_specifications:
- id: many
  tasks:
  - docker_image: x
    command: python train.py --seed {0}
    task_factory: {parametric_sweep: {product: [{start: 0, stop: 10000, step: 1}]}}
"""


def measure(read: Callable[[], object], seconds: float) -> float:
    """Return how often something is done in a second."""
    read()
    started, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - started) < seconds:
        read()
        count += 1
    return count / passed


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    seconds = parser.parse_args().seconds
    found: dict[str, tuple[int, float]] = {}

    def shipyard(texts: list[tuple[str, str]]) -> None:
        read_shipyard([parse_document(text, name) for name, text in texts])

    for folder in sorted(SAMPLES.glob("batch-shipyard/[23].x/*/config")):
        jobs = sorted(folder.glob("jobs*"))
        paths = [path for path in sorted(folder.iterdir()) if path not in jobs] + jobs[:1]
        texts = [(path.name, path.read_text()) for path in paths]
        name = f"Batch Shipyard {folder.parents[1].name} {folder.parent.name}"
        found[name] = (len(texts), measure(lambda texts=texts: shipyard(texts), seconds))
    for name in ("algorithms.json", "gpu-alg.json"):
        text = (SAMPLES / "hkube" / name).read_text()
        rate = measure(lambda text=text: read_any(parse_document(text, "x")), seconds)
        found[f"HKube {name}"] = (1, rate)
    found["Tarmac"] = (1, measure(lambda: read_any(parse_document(OWN, "x")), seconds))
    factory = measure(lambda: shipyard([("jobs.yaml", FACTORY)]), seconds)
    rows = [
        [name, str(count), f"{rate:.0f}", f"{rate * count:.0f}"]
        for name, (count, rate) in found.items()
    ]
    text = (
        f"{table(['', 'documents', 'readings per second', 'documents per second'], rows)}\n\n"
        f"A task factory of 10,000 tasks: {1 / factory:.2f} s, {10_000 * factory:,.0f} tasks per "
        "second."
    )
    write_results("parsing", {"readings": found, "factory": factory}, text)


if __name__ == "__main__":
    main()

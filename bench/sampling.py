"""What a training's samples cost: a reading with its line, and the clock around each batch.

    python bench/sampling.py [--rounds 200]

A reading is what the thread does every five seconds: all GPUs and the host are read, and a line is
appended. Its time on a processor is an upper bound of what it can take from the thread that trains.
The library is the tests' stand-in, so how long a driver takes to answer is to be added; it answers
without Python's lock. Thinning is counted too: a file of 2,000 points, every 1,000 points. A C
compiler is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _harness import run_child, table, write_results

CHECKS = Path(__file__).parents[1] / "tests" / "checks"
BUDGET = 0.005


def measure(rounds: int) -> dict[str, Any]:
    """Sample again and again; return seconds of all threads for each reading."""
    # Readers ask slow-changing values every few seconds only: let as much pass between readings.
    skipped_s, monotonic = 0.0, time.monotonic
    time.monotonic = lambda: monotonic() + skipped_s
    from tarmac import runs
    from tarmac.machine import NvmlProblem, open_live_reader
    from tarmac.runs import SampleFile, samples_path
    from tarmac.training.session import sampling

    found = open_live_reader()
    uuids = [] if isinstance(found, NvmlProblem) else [gpu.uuid for gpu in found.read()]
    num_rounds = 0

    class Counted(sampling.Sampler):
        def _write(self, write: Any) -> None:
            nonlocal num_rounds, skipped_s
            skipped_s += sampling.INTERVAL_S
            super()._write(write)
            num_rounds += 1
            if num_rounds == rounds:
                self._is_over.set()

    with tempfile.TemporaryDirectory() as name:
        run = runs.Run.create(
            Path(name),
            workload="bench",
            command=[],
            configuration={},
            dataset={},
            device={},
            versions={},
            seed=0,
            git=None,
            expectation=None,
        )
        sampler = Counted(run, uuids, interval_s=0.0)
        sampler.steps = 100_000
        sampler._work()  # warm: what is read once is read
        num_rounds = 0
        sampler._is_over.clear()
        wall, own = time.perf_counter(), time.process_time()
        sampler._work()
        wall_s = (time.perf_counter() - wall) / num_rounds
        own_s = (time.process_time() - own) / num_rounds
        if not isinstance(found, NvmlProblem):
            found.close()
        line = samples_path(run.path).read_text().splitlines()[-3]
        # As full as a file can be, and thinned once.
        path = Path(name) / "full.jsonl"
        path.write_text(f"{line}\n" * 1999)
        file = SampleFile(path)
        started = time.thread_time()
        file.add(1.0, {}, {})
        thin_s = time.thread_time() - started
    return {
        "gpus": len(uuids),
        "seconds": own_s,
        "wall": wall_s,
        "bytes": len(line),
        "thin": thin_s,
        "batch": _batch_s(),
    }


def _batch_s() -> float:
    """Return what the clock around a batch costs."""
    from tarmac.training.engine.timed_batches import TimedBatches

    num = 200_000
    started = time.thread_time()
    for _ in iter([()] * num):
        pass
    plain = time.thread_time() - started
    batches = TimedBatches(iter([()] * num))
    started = time.thread_time()
    for _ in batches:
        pass
    return (time.thread_time() - started - plain) / num


def main() -> None:
    """Measure machines without a GPU, with one and with eight, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.rounds)))
        return
    from tarmac.training.session.sampling import INTERVAL_S

    found = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        source = CHECKS / "nvml_stand_in.c"
        library = directory / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        for count in (0, 1, 8):
            environment = {"PYTHONPATH": os.pathsep.join(sys.path)}
            if count:
                machine = directory / "machine.txt"
                machine.write_text(_machine(count))
                environment |= {
                    "LD_LIBRARY_PATH": str(directory),
                    "NVML_STAND_IN": str(machine),
                    "NVML_STAND_IN_BUSY": str(directory / "busy"),
                }
            command = [sys.executable, __file__, "--child", "--rounds", str(options.rounds)]
            found.append(run_child(command, environment).result)
    rows = [
        [
            str(result["gpus"]),
            f"{result['seconds'] * 1e3:.2f}",
            f"{result['wall'] * 1e3:.2f}",
            f"{result['seconds'] / INTERVAL_S:.3%}",
            f"{(BUDGET * INTERVAL_S - result['seconds']) * 1e3:.0f}",
            str(result["bytes"]),
            f"{result['thin'] * 1e3:.0f}",
        ]
        for result in found
    ]
    head = ["GPUs", "ms of a processor a reading", "ms in all", f"of {INTERVAL_S:g} s"]
    head += ["ms left for the driver", "bytes a point", "ms to thin 2,000 points"]
    text = (
        f"{table(head, rows)}\n\nThe clock around a batch costs {found[0]['batch'] * 1e9:.0f} ns. "
        f"The aim is below {BUDGET:.1%}: whatever a step takes, so much of it at most."
    )
    write_results("sampling", {"readings": found, "interval_s": INTERVAL_S}, text)


def _machine(count: int) -> str:
    """Return a machine of equal GPUs at work, each with its own UUID."""
    one = (CHECKS / "machines" / "healthy.txt").read_text().splitlines()
    lines = [line for line in one if not line.startswith(("0.", "count"))]
    for index in range(count):
        for line in one:
            key, _, value = line.partition(" ")
            if key.startswith("0."):
                own = f"GPU-{index:08d}" if key == "0.uuid" else value
                lines.append(f"{index}{key[1:]} {own}")
    return "\n".join([f"count {count}", *lines]) + "\n"


if __name__ == "__main__":
    main()

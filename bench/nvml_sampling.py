"""What it costs to read GPUs under load: calls of NVML, and the share of a core.

    python bench/nvml_sampling.py [--rounds 300]

The library is the tests' stand-in, so the time is that of Tarmac and of NVIDIA's package for
Python. How long a driver takes to answer is to be added: the last column has how long a call may
take so that all stays below 1 % of a core. A C compiler is needed.
"""

from __future__ import annotations

import argparse
import collections
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
BUDGET = 0.01
PER_SECOND = 10


def measure(rounds: int) -> dict[str, Any]:
    """Read all GPUs again and again; return calls and seconds of this thread for each round."""
    import pynvml

    from tarmac.checks.run_probe import is_measuring, measuring_turns
    from tarmac.machine import NvmlProblem, open_nvml

    calls: collections.Counter[str] = collections.Counter()
    find = pynvml._nvmlGetFunctionPointer

    def count(name: str) -> Any:
        calls[name] += 1
        return find(name)

    with open_nvml() as nvml, measuring_turns() as turns:
        assert not isinstance(nvml, NvmlProblem), nvml.text
        readers = nvml.load_readers()

        def read() -> int:
            is_measuring(turns)
            return sum(reader.sample() is not None for reader in readers.values())

        # What is asked once only, and found to be unknown.
        num_busy = read()
        pynvml._nvmlGetFunctionPointer = count
        read()
        pynvml._nvmlGetFunctionPointer = find
        started = time.thread_time()
        for _ in range(rounds):
            read()
        seconds = (time.thread_time() - started) / rounds
    return {"busy": num_busy, "calls": sum(calls.values()), "by_call": calls, "seconds": seconds}


def main() -> None:
    """Measure machines of eight GPUs, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.rounds)))
        return
    found = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        library, busy = directory / "libnvidia-ml.so.1", directory / "busy"
        source = CHECKS / "nvml_stand_in.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        for num_busy in (0, 1, 8):
            machine = directory / "machine.txt"
            # Constant answers: what makes them change is the stand-in's own cost.
            one = (CHECKS / "machines" / "healthy.txt").read_text().splitlines()
            lines = [line for line in one if not line.startswith(("0.", "count"))]
            for index in range(8):
                state = {"0.slowdowns": "0x4" if index < num_busy else "0x1"}
                for line in one:
                    key, _, value = line.partition(" ")
                    if key.startswith("0."):
                        lines.append(f"{index}{key[1:]} {state.get(key, value)}")
            machine.write_text("\n".join(["count 8", *lines]) + "\n")
            child = run_child(
                [sys.executable, __file__, "--child", "--rounds", str(options.rounds)],
                {
                    "LD_LIBRARY_PATH": str(directory),
                    "NVML_STAND_IN": str(machine),
                    "NVML_STAND_IN_BUSY": str(busy),
                    "PYTHONPATH": os.pathsep.join(sys.path),
                },
            )
            found[num_busy] = child.result
    rows = []
    for result in found.values():
        share = result["seconds"] * PER_SECOND
        left = (BUDGET / PER_SECOND - result["seconds"]) / result["calls"]
        rows.append(
            [
                f"8, {result['busy']} computing",
                str(result["calls"]),
                f"{result['seconds'] * 1e6:.0f}",
                f"{share:.2%}",
                f"{left * 1e6:.0f}",
            ]
        )
    head = ["GPUs", "calls a reading", "µs a reading", "of a core", "µs left for each call"]
    text = (
        f"{table(head, rows)}\n\nA reading is of all GPUs, {PER_SECOND} times a second while a "
        "probe measures; probes measure one GPU at a time. The aim is below 1 % of a core."
    )
    write_results("nvml-sampling", {"readings": found}, text)


if __name__ == "__main__":
    main()

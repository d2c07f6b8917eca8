"""How long `tarmac check` takes, against the import times of the frameworks that it probes.

    python bench/check.py --python PYTHON [--rounds 5]

PYTHON has Tarmac, PyTorch, TensorFlow and JAX. Whole processes, alternating, in one run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from _harness import Spread, table, write_results

IMPORTS = ("torch", "tensorflow", "jax")


def measure(command: list[str]) -> float:
    """Return the wall time of a process, in seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="has Tarmac and the frameworks")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    tarmac = [given.python, "-m", "tarmac", "check"]
    commands = {f"import {name}": [given.python, "-c", f"import {name}"] for name in IMPORTS}
    checks = {
        "tarmac check torch tensorflow jax": [*tarmac, *IMPORTS],
        "tarmac check": tarmac,
        "tarmac check --quick": [*tarmac, "--quick"],
    }
    found: dict[str, list[float]] = {name: [] for name in (*commands, *checks)}
    for _ in range(given.rounds):
        for name, command in (commands | checks).items():
            found[name].append(measure(command))
    total = [sum(found[name][n] for name in commands) for n in range(given.rounds)]
    rows = [[name, Spread.of(seconds).show()] for name, seconds in found.items()]
    rows.insert(len(commands), ["the three imports, added up", Spread.of(total).show()])
    versions = subprocess.run(
        [given.python, "-m", "pip", "list", "--format=freeze"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    wanted = ("torch==", "tensorflow==", "jax==", "keras==")
    text = (
        f"{', '.join(v for v in versions if v.startswith(wanted))}; whole processes, "
        f"{given.rounds} rounds, alternating; medians, with the lowest and highest in brackets. "
        "`tarmac check` without names also probes Keras, which comes with TensorFlow.\n\n"
        f"{table(['', 'seconds'], rows)}"
    )
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    write_results("check", {"rounds": given.rounds, "seconds": found, "medians": medians}, text)


if __name__ == "__main__":
    main()

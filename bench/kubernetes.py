"""Tasks through Kubernetes: requests to the API, what the runner takes, how soon ends are known.

    python bench/kubernetes.py [--rounds 3] [--tasks 5000] [--known 20]

There is no cluster: the API, the Job controller and the scheduler are the emulator of the tests, in
a process of its own. The pods of the large runs end at once and run nothing, so that what is
measured is the runner: its requests, its own CPU seconds, its memory. For how soon an end is known,
pods are real processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from _harness import TARMAC, Spread, table, write_results

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER = Path(__file__).parent / "peers" / "kubernetes_cluster.py"


@contextlib.contextmanager
def cluster(place: Path, *words: str) -> Iterator[Path]:
    """Start a cluster; give its kubeconfig. Once it has ended, ``place / "counts"`` is there."""
    kubeconfig = place / "kubeconfig"
    process = subprocess.Popen(
        [sys.executable, str(CLUSTER), str(kubeconfig), str(place / "counts"), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield kubeconfig
    finally:
        process.communicate(timeout=120)
    assert process.returncode == 0


def tarmac(place: Path, kubeconfig: Path, job: dict[str, Any]) -> list[str]:
    """Write a job's file; return the command that runs it."""
    path = place / "job.yaml"
    options = {"kubeconfig": str(kubeconfig), "image": "python:3.12-slim"}
    path.write_text(yaml.safe_dump({**job, "options": {"kubernetes": options}}))
    return [*TARMAC, "run", "--on", "kubernetes", "--output", str(place / "runs"), str(path)]


def run_many(num_tasks: int) -> dict[str, Any]:
    """Run a job of so many tasks; return what the runner took, and what it asked for."""
    job = {
        "name": "bench",
        "command": ["true"],
        "resources": {"cpus": 1, "memory": "64MiB"},
        "sweep": {"repeat": num_tasks},
    }
    with tempfile.TemporaryDirectory() as root:
        place = Path(root)
        with cluster(place, "--hollow") as kubeconfig, (place / "out").open("w") as out:
            started = time.perf_counter()
            process = subprocess.Popen(tarmac(place, kubeconfig, job), stdout=out, stderr=out)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, (place / "out").read_text()[-2000:]
        asked = json.loads((place / "counts").read_text())
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "mib": usage.ru_maxrss / 1024,
        "requests": asked,
        "requests_per_task": sum(asked.values()) / num_tasks,
    }


def known_after_s(num_tasks: int) -> list[float]:
    """Return seconds from the last words of tasks that end one by one to the runner's line."""
    job = {
        "name": "known",
        "command": "date +%s.%N",
        "resources": {"cpus": 1},
        "sweep": {"repeat": num_tasks},
        "concurrency": 1,
    }
    with tempfile.TemporaryDirectory() as root:
        place = Path(root)
        with cluster(place) as kubeconfig:
            command = tarmac(place, kubeconfig, job)
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            ends = (line for line in process.stdout if line.split()[:1] == ["succeeded"])
            known = [time.time() for _ in ends]
            assert process.wait() == 0
        said = sorted(float(path.read_text()) for path in (place / "runs").rglob("stdout"))
    return [later - earlier for later, earlier in zip(sorted(known), said, strict=True)]


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--known", type=int, default=20)
    options = parser.parse_args()
    sizes = (1, options.tasks)
    found: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
    for _ in range(options.rounds):
        for size in sizes:
            found[size].append(run_many(size))
    known = known_after_s(options.known)
    rows = []
    for size, rounds in found.items():
        spreads = {
            key: Spread.of([each[key] for each in rounds]) for key in rounds[0] if key != "requests"
        }
        rows.append(
            [
                f"{size:,}",
                spreads["seconds"].show(),
                spreads["cpu_seconds"].show(),
                spreads["mib"].show(0),
                spreads["requests_per_task"].show(3),
            ]
        )
    asked = found[options.tasks][-1]["requests"]
    said = ", ".join(
        f"{count:,} {what}" for what, count in sorted(asked.items(), key=lambda x: -x[1])
    )
    text = (
        table(["tasks", "seconds", "runner's CPU seconds", "runner's MiB", "requests a task"], rows)
        + f"\n\nThe requests of the last large run: {said}.\n"
        + f"\nFrom a task's last words to the runner's line: {Spread.of(known).show(3)} s.\n"
    )
    data = {"options": vars(options), "runs": found, "known_after_s": known}
    write_results("kubernetes", data, text)


if __name__ == "__main__":
    main()

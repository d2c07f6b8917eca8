"""Tasks through Ray: how many a second, and how soon an end is known.

    python bench/ray_tasks.py [--rounds 3] [--tasks 200] [--jobs 5]

Everything is on one machine: a Ray cluster of one node, made for this, with as many CPUs as the
machine. The program of each task is ``true``. Beside `tarmac run --on ray` stand a driver of a few
lines that starts the program from ``ray.remote`` functions and keeps nothing, and Ray's Jobs API,
where each program is a job (fewer of them, as each costs seconds); alternating, in one run. Each
includes its own start: a process that connects to the cluster. What else the machine did is said by
its load, the number of processes that want a core, before each round: they share the cores with it.
"""

from __future__ import annotations

import argparse
import contextlib
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

PLAIN = """
import subprocess, sys
import ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
run = ray.remote(num_cpus=1, max_retries=0)(lambda: subprocess.run(["true"]).returncode)
assert not any(ray.get([run.remote() for _ in range(int(sys.argv[2]))]))
"""

JOBS = """
import sys, time
from ray.job_submission import JobStatus, JobSubmissionClient
client = JobSubmissionClient(sys.argv[1])
names = [client.submit_job(entrypoint="true") for _ in range(int(sys.argv[2]))]
while not all(client.get_job_status(name).is_terminal() for name in names):
    time.sleep(0.1)
assert all(client.get_job_status(name) == JobStatus.SUCCEEDED for name in names)
"""


@contextlib.contextmanager
def cluster() -> Iterator[tuple[str, str]]:
    """Start a cluster of one node; give its address, and its dashboard's."""
    import ray
    from ray.cluster_utils import Cluster

    head = {"num_cpus": os.cpu_count(), "object_store_memory": 100_000_000}
    started = Cluster(initialize_head=True, head_node_args={**head, "dashboard_port": 8299})
    try:
        yield started.address, "http://127.0.0.1:8299"
    finally:
        ray.shutdown()
        started.shutdown()


def seconds_of(command: list[str]) -> float:
    """Run a program that must succeed; return its seconds."""
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return time.perf_counter() - begun


def tarmac(address: str, place: Path, job: dict[str, Any]) -> list[str]:
    """Write a job's file; return the command that runs it."""
    path = place / "job.yaml"
    path.write_text(yaml.safe_dump({**job, "options": {"ray": {"address": address}}}))
    return [*TARMAC, "run", "--on", "ray", "--output", str(place / "runs"), str(path)]


def known_after_s(address: str, place: Path, num_tasks: int) -> list[float]:
    """Return seconds from the last words of tasks that end one by one to the runner's line."""
    job = {
        "name": "known",
        "command": "date +%s.%N",
        "resources": {"cpus": 1},
        "sweep": {"repeat": num_tasks},
        "concurrency": 1,
    }
    process = subprocess.Popen(tarmac(address, place, job), stdout=subprocess.PIPE, text=True)
    known = {}
    assert process.stdout is not None
    for line in process.stdout:
        words = line.split()
        if words[:1] == ["succeeded"]:
            known[words[1]] = time.time()
    assert process.wait() == 0
    (run,) = (place / "runs").glob("known-*")
    said = [float(path.read_text()) for path in run.rglob("stdout")]
    return [
        later - earlier for later, earlier in zip(sorted(known.values()), sorted(said), strict=True)
    ]


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=5)
    options = parser.parse_args()
    found: dict[str, list[float]] = {"tarmac": [], "plain": [], "jobs": []}
    known: list[float] = []
    load: list[float] = []
    with cluster() as (address, dashboard), tempfile.TemporaryDirectory() as root:
        job = {
            "name": "bench",
            "command": ["true"],
            "resources": {"cpus": 1},
            "sweep": {"repeat": options.tasks},
        }
        for number in range(options.rounds):
            load.append(os.getloadavg()[0])
            place = Path(root, str(number))
            place.mkdir()
            found["tarmac"].append(seconds_of(tarmac(address, place, job)))
            plain = [sys.executable, "-c", PLAIN, address, str(options.tasks)]
            found["plain"].append(seconds_of(plain))
            jobs = [sys.executable, "-c", JOBS, dashboard, str(options.jobs)]
            found["jobs"].append(seconds_of(jobs))
            known += known_after_s(address, place, 5)
    numbers = {"tarmac": options.tasks, "plain": options.tasks, "jobs": options.jobs}
    titles = {
        "tarmac": "`tarmac run --on ray`",
        "plain": "plain `ray.remote`",
        "jobs": "Ray's Jobs API",
    }
    rows = []
    for name, seconds in found.items():
        each = Spread.of([value / numbers[name] for value in seconds])
        rate = Spread.of([numbers[name] / value for value in seconds])
        rows.append([titles[name], str(numbers[name]), rate.show(), each.show(3)])
    text = (
        table(["", "tasks", "tasks a second", "seconds a task, start included"], rows)
        + f"\n\nFrom a task's last words to the runner's line: {Spread.of(known).show()} s.\n"
        + f"\nThe machine's load before each round: {', '.join(f'{one:.1f}' for one in load)}, "
        f"on {os.cpu_count()} cores.\n"
    )
    values = {"options": vars(options), "seconds": found, "known_after_s": known, "load": load}
    write_results("ray", values, text)


if __name__ == "__main__":
    main()

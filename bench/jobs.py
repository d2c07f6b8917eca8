"""Many small tasks by `tarmac run`, against GNU parallel and xargs; planning; resuming.

    python bench/jobs.py [--rounds 5] [--tasks 1000]

Needs GNU parallel. All run the same program at the same parallelism and keep what tasks print in a
file each, except xargs, which keeps nothing. Alternating, in one run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _harness import TARMAC, Spread, table, write_results

PLAN = """
import json, resource, sys, time
from pathlib import Path
from tarmac.jobs import parse_job, plan_tasks
text = "{name: x, command: [echo, '{{ repeat }}'], sweep: {repeat: %s}}" % sys.argv[1]
start = time.perf_counter()
tasks = list(plan_tasks(parse_job(text), Path()))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"s": time.perf_counter() - start, "mib": peak / 1024, "tasks": len(tasks)}))
"""


def timed(command: list[str], **options: object) -> float:
    """Return the wall time of a process, in seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
    return time.perf_counter() - started


def main() -> None:
    """Run the rounds and write the results."""
    import json

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=1000)
    given = parser.parse_args()
    cores = str(os.cpu_count())
    found: dict[str, list[float]] = {"tarmac run": [], "GNU parallel": [], "xargs": []}
    one: list[float] = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            text = "{name: x, command: [echo, '{{ repeat }}'], sweep: {repeat: %s}}"
            (root / "job.yaml").write_text(text % given.tasks)
            (root / "one.yaml").write_text(text % 1)
            run = [*TARMAC, "run", "--json", "--output", str(root / "runs")]
            found["tarmac run"].append(timed([*run, str(root / "job.yaml")]))
            numbers = "\n".join(map(str, range(given.tasks))).encode()
            parallel = ["parallel", "-j", cores, "--results", str(root / "results"), "echo", "{}"]
            found["GNU parallel"].append(timed(parallel, input=numbers))
            found["xargs"].append(timed(["xargs", "-P", cores, "-n", "1", "echo"], input=numbers))
            one.append(timed([*run, str(root / "one.yaml")]))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "job.yaml").write_text(text % 10_000)
        run = [*TARMAC, "run", "--json", "--output", str(root / "runs")]
        whole_s = timed([*run, str(root / "job.yaml")])
        resume_s = timed([*run, "--resume", "latest"])
    plans = []
    for count in (10_000, 100_000):
        done = subprocess.run(
            [sys.executable, "-c", PLAN, str(count)], capture_output=True, text=True, check=True
        )
        plans.append(json.loads(done.stdout))
    ours = Spread.of(found["tarmac run"]).median
    rows = [
        [name, Spread.of(seconds).show(), f"{Spread.of(seconds).median / ours:.2f}"]
        for name, seconds in found.items()
    ]
    planned = "; ".join(f"{p['tasks']:,} tasks {p['s']:.2f} s, {p['mib']:.0f} MiB" for p in plans)
    text = (
        f"{given.tasks:,} times `echo`, {cores} at once, {given.rounds} rounds, alternating; "
        "medians, with the lowest and highest in brackets.\n\n"
        f"{table(['', 'seconds', 'over ours'], rows)}\n\n"
        f"A run of one task takes {Spread.of(one).show()} s. Planning: {planned}. A run of 10,000 "
        f"tasks takes {whole_s:.1f} s; resuming it when all are done, {resume_s:.1f} s."
    )
    data = {"seconds": found, "one": one, "plans": plans, "10000": [whole_s, resume_s]}
    write_results("jobs", {"rounds": given.rounds, "tasks": given.tasks, **data}, text)


if __name__ == "__main__":
    main()

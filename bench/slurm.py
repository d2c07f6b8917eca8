"""Tasks through Slurm: how many a second, what the runner takes, how soon an end is known.

    python bench/slurm.py [--rounds 3] [--tasks 200] [--per-job 10] [--many 10000 100000]
                          [--submitit PYTHON]

Also: how long after a task's last words its end is known to the runner, and how long a training on
two nodes stands still when one of its ranks is killed.

Everything is on one machine: a Slurm of two nodes, with a controller, made for this. The program of
each task is ``true``. Beside `tarmac run --on slurm` stand an array written by hand, which keeps
nothing, and submitit's ``map_array`` in the environment of PYTHON, alternating, in one run; and
`tarmac run` with some tasks in each job (``per_job``), which is made for tasks so short. The large
runs put many into each; their calls of Slurm's commands are counted by scripts that stand in front
of them.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from _harness import TARMAC, Spread, table, write_results
from tarmac.testing.slurm import OneMachineSlurm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PEER = Path(__file__).parent / "peers" / "submitit_array.py"
COMMANDS = ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo")
PARTITION = "PartitionName=main Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8"
SETTINGS = (
    "MaxArraySize=1001",
    "MaxJobCount=50000",
    "SchedulerParameters=default_queue_depth=1000,sched_min_interval=0,batch_sched_delay=0",
)


def variables(cluster: OneMachineSlurm, commands: Path | None = None) -> dict[str, str]:
    """Return the environment in which a cluster's commands are found, counted ones first."""
    path = os.environ["PATH"] if commands is None else f"{commands}:{os.environ['PATH']}"
    return {**os.environ, **cluster.variables, "PATH": path}


def run(command: list[str], environment: Mapping[str, str], out: Path) -> dict[str, float]:
    """Run a program; return its seconds, its own CPU seconds, and its MiB at most."""
    with out.open("w") as file:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, out.read_text()[-2000:]
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "mib": usage.ru_maxrss / 1024,
    }


def job_file(root: Path, num_tasks: int, per_job: int) -> Path:
    """Write a job of equal tasks; return its file."""
    path = root / "job.yaml"
    job = {
        "name": "bench",
        "command": ["true"],
        "resources": {"cpus": 1, "memory": "64MiB"},
        "sweep": {"repeat": num_tasks},
        "options": {"slurm": {"per_job": per_job}},
    }
    path.write_text(yaml.safe_dump(job))
    return path


def counted(directory: Path) -> Path:
    """Make scripts that note each call of Slurm's commands with its time; return their place."""
    directory.mkdir()
    for name in COMMANDS:
        script = directory / name
        script.write_text(
            f"#!/bin/sh\necho $(date +%s.%N) {name} >>{directory}/calls\n"
            f'exec {shutil.which(name)} "$@"\n'
        )
        script.chmod(0o755)
    return directory


def through_tarmac(
    cluster: OneMachineSlurm, root: Path, num_tasks: int, *, per_job: int = 1
) -> dict[str, Any]:
    """Run a job of equal tasks; return what it took, its calls, and when ends were known."""
    place = Path(tempfile.mkdtemp(dir=root))
    commands = counted(place / "commands")
    job = job_file(place, num_tasks, per_job)
    command = [*TARMAC, "run", "--on", "slurm", "--output", str(place / "runs"), str(job)]
    found: dict[str, Any] = dict(run(command, variables(cluster, commands), place / "out"))
    lines = [line.split() for line in (commands / "calls").read_text().splitlines()]
    found["calls"] = dict(Counter(name for _, name in lines))
    looks = [float(when) for when, name in lines if name == "squeue"]
    gaps = [later - earlier for earlier, later in itertools.pairwise(looks)]
    found["squeue_every_s"] = (looks[-1] - looks[0]) / len(gaps) if gaps else 0.0
    shutil.rmtree(place)
    return found


def by_hand(cluster: OneMachineSlurm, root: Path, num_tasks: int) -> dict[str, Any]:
    """Run an array that keeps nothing, and wait for its end."""
    place = Path(tempfile.mkdtemp(dir=root))
    submit = f"sbatch --array=0-{num_tasks - 1} --mem=64M --cpus-per-task=1 --job-name=by-hand"
    # `sbatch --wait` looks ever more seldom, and would be measured instead.
    wait = 'while [ -n "$(squeue -h -n by-hand)" ]; do sleep 0.5; done'
    script = f"{submit} --output=/dev/null --wrap true && {wait}"
    return run(["sh", "-c", script], variables(cluster), place / "out")


def through_submitit(
    python: Path, cluster: OneMachineSlurm, root: Path, num_tasks: int
) -> dict[str, Any]:
    """Run a function that starts the program, by submitit."""
    place = Path(tempfile.mkdtemp(dir=root))
    command = [str(python), str(PEER), str(place / "folder"), str(num_tasks)]
    return run(command, variables(cluster), place / "out")


def known_after_s(cluster: OneMachineSlurm, root: Path, num_tasks: int) -> list[float]:
    """Return seconds from the last words of tasks that end one by one to the runner's line."""
    place = Path(tempfile.mkdtemp(dir=root))
    job = {
        "name": "bench",
        "command": "sleep {{ repeat }}; date +%s.%N",
        "resources": {"cpus": 1, "memory": "64MiB"},
        "sweep": {"repeat": num_tasks},
    }
    (place / "job.yaml").write_text(yaml.safe_dump(job))
    command = [*TARMAC, "run", "--on", "slurm", "--output", str(place / "runs")]
    process = subprocess.Popen(
        [*command, str(place / "job.yaml")],
        stdout=subprocess.PIPE,
        text=True,
        env=variables(cluster) | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    known = {}
    for line in process.stdout:
        if found := re.match(r" *succeeded +bench\[repeat=(\d+)\]", line):
            known[int(found[1])] = time.time()
    assert process.wait() == 0
    said = {
        int(path.parent.name.rpartition("=")[2].rstrip("_")): float(path.read_text())
        for path in place.glob("runs/*/tasks/*/stdout")
    }
    return [known[number] - said[number] for number in sorted(said)]


def standstill_s(cluster: OneMachineSlurm, root: Path) -> float:
    """Return seconds from a killed rank of a training on two nodes to its next epoch."""
    place = Path(tempfile.mkdtemp(dir=root))
    command = [*TARMAC, "train", "digits-mlp", "--epochs", "30", "--devices", "cpu"]
    command += ["--on", "slurm", "--nodes", "2", "--output", str(place)]
    with (place / "out").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=variables(cluster))
    rows = 0
    while rows < 3:
        time.sleep(0.05)
        assert process.poll() is None, (place / "out").read_text()
        rows = num_rows(place)
    (rank, *_) = (
        found
        for found in psutil.process_iter()
        if found.name().startswith("python") and is_rank(found, "n2", place)
    )
    rank.kill()
    started, before = time.perf_counter(), num_rows(place)
    while num_rows(place) <= before:
        time.sleep(0.05)
        assert process.poll() is None, (place / "out").read_text()
    seconds = time.perf_counter() - started
    assert process.wait() == 0, (place / "out").read_text()
    return seconds


def num_rows(output: Path) -> int:
    """Return how many epochs the training below a directory has written down."""
    return sum(len(path.read_text().splitlines()) for path in output.glob("*/metrics.jsonl"))


def is_rank(process: psutil.Process, node: str, output: Path) -> bool:
    """Whether a process is a rank of the training in a directory, on a node."""
    with contextlib.suppress(psutil.Error):
        environment = process.environ()
        is_there = environment.get("SLURMD_NODENAME") == node and "RANK" in environment
        return is_there and str(output) in " ".join([*process.cmdline(), *environment.values()])
    return False


def dry_run(cluster: OneMachineSlurm, root: Path, num_tasks: int) -> dict[str, Any]:
    """Plan a job of very many tasks, and start nothing."""
    place = Path(tempfile.mkdtemp(dir=root))
    job = job_file(place, num_tasks, 1000)
    command = [*TARMAC, "run", "--on", "slurm", "--dry-run", str(job)]
    return run(command, variables(cluster), place / "out")


def main() -> None:
    """Run the rounds and write the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--per-job", type=int, default=10)
    parser.add_argument("--many", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--planned", type=int, default=1_000_000)
    parser.add_argument("--submitit", type=Path, help="the interpreter of its environment")
    given = parser.parse_args()
    packed = f"tarmac, per_job: {given.per_job}"
    peers: dict[str, list[dict[str, Any]]] = {"tarmac": [], packed: [], "an array by hand": []}
    if given.submitit:
        peers["submitit"] = []
    many: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        with OneMachineSlurm(root / "cluster", settings=SETTINGS, partitions=[PARTITION]) as slurm:
            for _ in range(given.rounds):
                peers["tarmac"].append(through_tarmac(slurm, root, given.tasks))
                found = through_tarmac(slurm, root, given.tasks, per_job=given.per_job)
                peers[packed].append(found)
                peers["an array by hand"].append(by_hand(slurm, root, given.tasks))
                if given.submitit:
                    found = through_submitit(given.submitit, slurm, root, given.tasks)
                    peers["submitit"].append(found)
            for count in given.many:
                many[count] = through_tarmac(slurm, root, count, per_job=max(50, count // 200))
            known = [s for _ in range(given.rounds) for s in known_after_s(slurm, root, 10)]
            standstills = [standstill_s(slurm, root) for _ in range(given.rounds)]
            planned = dry_run(slurm, root, given.planned) if given.planned else {}
    report(given, peers, many, planned, known=known, standstills=standstills)


def report(
    given: argparse.Namespace,
    peers: Mapping[str, list[dict[str, Any]]],
    many: Mapping[int, dict[str, Any]],
    planned: Mapping[str, Any],
    *,
    known: Sequence[float],
    standstills: Sequence[float],
) -> None:
    """Write the page."""
    rows = []
    for name, measured in peers.items():
        seconds = Spread.of([each["seconds"] for each in measured])
        rows.append([name, seconds.show(), f"{given.tasks / seconds.median:.1f}"])
    large = [
        [
            f"{count:,}",
            f"{found['seconds']:.1f}",
            f"{count / found['seconds']:,.0f}",
            f"{found['cpu_seconds']:.1f}",
            f"{found['mib']:.0f}",
            ", ".join(f"{name} {number}" for name, number in sorted(found["calls"].items())),
            f"{found['squeue_every_s']:.1f}",
        ]
        for count, found in many.items()
    ]
    header = ["tasks", "seconds", "a second", "CPU s", "MiB", "calls", "squeue every s"]
    text = (
        f"{given.tasks} tasks of `true`, each a unit of Slurm's own but where `per_job` puts "
        f"several into one, {given.rounds} rounds, alternating.\n\n"
        f"{table(['', 'seconds', 'tasks a second'], rows)}\n\n"
        "Many tasks, 50 or more in each job (`per_job`); CPU seconds and memory are those of the "
        f"runner, `tarmac run`, from its start to its end.\n\n{table(header, large)}\n"
    )
    text += (
        f"\nA task's end is known {Spread.of(known).show()} s after its last words, of tasks that "
        "end one by one. A training on two nodes, one of whose ranks is killed, has its next epoch "
        f"{Spread.of(standstills).show()} s later.\n"
    )
    if planned:
        text += (
            f"\n`--dry-run` of {given.planned:,} tasks: {planned['seconds']:.1f} s, "
            f"{planned['mib']:.0f} MiB.\n"
        )
    data = {
        "rounds": given.rounds,
        "tasks": given.tasks,
        "peers": peers,
        "many": many,
        "known_after_s": known,
        "standstill_s": standstills,
        "planned": planned,
    }
    write_results("slurm", data, text)


if __name__ == "__main__":
    sys.exit(main())

"""What goes wrong around a run: full disks, killed and stubborn tasks, jumping clocks, rivals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil

from tarmac.devices import GpuInfo
from tarmac.jobs import create_run, parse_job, plan_tasks
from tarmac.jobs._machine import Machine
from tarmac.jobs._scheduler import run_tasks
from tarmac.jobs.executors import LocalExecutor


def tarmac(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tarmac", "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_a_full_disk_is_said_and_the_run_goes_on_once_there_is_room(tmp_path, small_disk):
    disk = small_disk("1m")
    (tmp_path / "job.yaml").write_text(
        textwrap.dedent(
            """
            name: x
            concurrency: 1
            tasks:
              - {name: fine, command: echo x >> ../../../../count}
              - {name: fills, command: "test -e ../../../../room || head -c 2000000 /dev/zero > f"}
              - {name: after, needs: [fills], command: echo done}
            """
        )
    )
    count = disk / "count"
    full = tarmac(str(tmp_path / "job.yaml"), "--output", str(disk))
    assert full.returncode == 1
    assert "failed     fills" in full.stdout
    assert "exit code 1, and no space is left on its disk" in full.stdout
    (run,) = disk.glob("x-*")
    for path in run.rglob("f"):
        path.unlink()
    (disk / "room").touch()
    again = tarmac("--resume", str(run))
    assert again.returncode == 0, again.stdout + again.stderr
    assert count.read_text() == "x\n"


def test_a_task_that_is_killed_has_failed_by_its_signal(tmp_path):
    (tmp_path / "job.yaml").write_text("{name: x, command: kill -KILL $$}")
    done = tarmac(str(tmp_path / "job.yaml"), "--output", str(tmp_path / "runs"), "--json")
    ((task,),) = [result["tasks"] for result in json.loads(done.stdout)]
    assert (task["outcome"], task["reason"], task["exit_code"]) == ("failed", "signal 9", -9)


def test_a_task_that_forks_and_ignores_being_asked_is_killed_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("tarmac.jobs.executors._local._GRACE_S", 0.2)
    nap = f"811.{os.getpid()}"
    script = f"trap '' TERM; (trap '' TERM; sleep {nap}; sleep {nap}) & (setsid sleep {nap}) & wait"
    job = parse_job(f'{{name: x, timeout: 0.3, command: "{script}"}}')
    ended = work(job, tmp_path)
    assert ended[0].reason == "its time limit of 0.3 s"
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", nap]]


def test_a_clock_that_jumps_changes_no_limit_and_no_pause(tmp_path, monkeypatch):
    real = time.time
    jumps = iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: real() + 86400 * (-1) ** next(jumps))
    job = parse_job(
        "{name: x, timeout: 60, retries: {count: 1, backoff: 0.01},"
        " command: 'test $TARMAC_ATTEMPT = 2'}"
    )
    (end,) = work(job, tmp_path)
    assert (end.outcome, end.attempts) == ("succeeded", 2)
    assert end.seconds < 60


_RIVAL = """
import contextlib, sys
from pathlib import Path
from tarmac.devices import GpuInfo
from tarmac.jobs import create_run, parse_job, plan_tasks
from tarmac.jobs._machine import Machine
from tarmac.jobs._scheduler import run_tasks
from tarmac.jobs.executors import LocalExecutor

class Silent:
    started = waited = retrying = ended = lambda *_: None

root, name = Path(sys.argv[1]), sys.argv[2]
command = f"set -C; > {root}/taken && rm {root}/taken"
job = parse_job(f"{{name: x, sweep: {{repeat: 5}}, resources: {{gpus: 1}}, command: '{command}'}}")
run = create_run(job, root, (), root / name)
gpus = [GpuInfo("GPU-a", "fast", 2**34)]
machine = Machine(cpus=8, memory=2**34, gpus=gpus, leases=root / "leases")
with contextlib.closing(LocalExecutor(machine, root, run.path / "shared")) as executor:
    print(run_tasks([*plan_tasks(job, root)], run.path, executor, Silent())["succeeded"])
"""


def test_two_runners_take_turns_with_the_only_gpu(tmp_path):
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", _RIVAL, str(tmp_path), name], stdout=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    assert [rival.communicate(timeout=240)[0] for rival in rivals] == ["5\n", "5\n"]


def work(job, tmp_path: Path) -> list:
    ends: list = []

    class Watcher:
        def started(self, *_: object) -> None: ...
        def waited(self) -> None: ...
        def retrying(self, *_: object) -> None: ...
        def ended(self, ended) -> None:
            ends.append(ended)

    tasks = [*plan_tasks(job, tmp_path)]
    run = create_run(job, tmp_path, tasks, tmp_path / "runs")
    machine = Machine(
        cpus=8, memory=2**34, gpus=[GpuInfo("GPU-a", "fast", 2**34)], leases=tmp_path / "leases"
    )
    executor = LocalExecutor(machine, tmp_path, run.path / "shared")
    try:
        run_tasks(tasks, run.path, executor, Watcher())
    finally:
        executor.close()
    return ends

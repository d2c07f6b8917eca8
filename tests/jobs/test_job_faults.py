"""What goes wrong around a run: full disks, killed and stubborn tasks, jumping clocks, rivals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from forked import run_python, start_python
from tarmac.executors import LocalExecutor
from tarmac.jobs import create_run, parse_job, plan_tasks
from tarmac.jobs.progress import Silent
from tarmac.jobs.retries import pause_s
from tarmac.jobs.scheduler import run_tasks
from tarmac.machine import GpuInfo
from tarmac.processes import Process, make_memory_group, parent_of_groups, start
from tarmac.tasks.machine import Machine
from tarmac.tasks.model import Resources
from waiting import limit_s


def tarmac(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "tarmac", "run", *arguments, **options)


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


def test_a_task_that_forks_and_ignores_being_asked_is_killed_whole(tmp_path):
    nap = f"811.{os.getpid()}"
    script = f"trap '' TERM; (trap '' TERM; sleep {nap}; sleep {nap}) & (setsid sleep {nap}) & wait"
    job = parse_job(f'{{name: x, timeout: 0.3, command: "{script}"}}')
    ended = work(job, tmp_path, grace_s=0.2)
    assert ended[0].reason == "its time limit of 0.3 s"
    assert not [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", nap]]


def runner(tmp_path: Path, text: str, **options) -> subprocess.Popen[bytes]:
    (tmp_path / "job.yaml").write_text(textwrap.dedent(text))
    command = ["run", str(tmp_path / "job.yaml"), "--output", str(tmp_path / "runs"), "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "tarmac", *command], stdout=subprocess.DEVNULL, **options
    )


def test_no_installer_runs_on_when_the_runner_is_killed(tmp_path, slow_server, trace):
    process = runner(
        tmp_path,
        f"""
        name: x
        command: echo
        environment: {{requirements: ["six @ {slow_server.url}/six-1.0-py3-none-any.whl"]}}
        """,
    )
    assert slow_server.begun.wait(limit_s(120))
    started = trace.processes()
    # The runner, its guardian, what stages, and the installer.
    assert len(started) >= 4
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(started, timeout=limit_s(60))
    assert not alive


def test_an_interrupt_of_the_terminal_interrupts_a_preparation_and_does_not_fail_it(
    tmp_path, slow_server
):
    process = runner(
        tmp_path,
        f"{{name: x, command: echo, inputs: [{{from: '{slow_server.url}'}}]}}",
        start_new_session=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )
    assert slow_server.begun.wait(limit_s(120))
    # As a terminal does: to all of the foreground's process group.
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(limit_s(60)) == 130
    (run,) = (tmp_path / "runs").iterdir()
    last = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()][-1]
    assert (last["outcome"], last["reason"]) == ("interrupted", "the run was stopped")


@pytest.fixture
def memory_groups() -> Path:
    """Return the directory in which tasks' control groups are made."""
    parent = parent_of_groups()
    group = make_memory_group(f"tarmac-test-{secrets.token_hex(4)}", 2**26)
    if parent is None or group is None:
        pytest.skip("control groups cannot be made here; try as root, outside of containers")
    group.remove()
    return parent


@pytest.fixture(params=["no thread", "a thread"])
def beside(request) -> Iterator[None]:
    """Have what else is at work in this process: beside threads, programs are started otherwise."""
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    if request.param == "a thread":
        thread.start()
    yield
    is_over.set()
    if thread.ident:
        thread.join()


@pytest.mark.usefixtures("beside")
def test_a_program_is_in_its_control_group_from_its_first_instruction(tmp_path, memory_groups):
    job = parse_job(
        "{name: x, sweep: {repeat: 8}, resources: {memory: 64MiB, cpus: 0.01},"
        " command: [grep, tarmac-, /proc/self/cgroup]}"
    )
    assert [end.outcome for end in work(job, tmp_path)] == ["succeeded"] * 8
    printed = [path.read_text() for path in (tmp_path / "runs").glob("*/tasks/*/stdout")]
    names = {text.strip().rpartition("/")[2] for text in printed}
    assert len(names) == 8
    assert not [name for name in names if (memory_groups / name).exists()]


@pytest.mark.usefixtures("beside")
def test_a_limit_on_memory_changes_nothing_else_for_a_program(tmp_path, memory_groups, monkeypatch):
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        monkeypatch.delenv(name, raising=False)
    text = """
        name: x
        resources: {cpus: 0.01}
        tasks:
          - {name: free, command: &shown "grep Sig[BIC] /proc/self/status; env | grep -v TARMAC"}
          - {name: limited, command: *shown, resources: {memory: 64MiB, cpus: 0.01}}
          - {name: none, command: [no-such-program], resources: {memory: 64MiB}}
          - {name: text, command: [/etc/hostname], resources: {memory: 64MiB}}
          - {name: plain, command: [/etc/hostname]}
        """
    ends = {end.task.name: end for end in work(parse_job(textwrap.dedent(text)), tmp_path)}
    free, limited = sorted((tmp_path / "runs").glob("*/tasks/*/stdout"))[:2]
    plain = [re.sub("(PWD|OLDPWD)=.*", "", path.read_text()) for path in (free, limited)]
    assert plain[0] == plain[1]
    assert ends["none"].reason == "no-such-program: No such file or directory"
    assert ends["text"].reason == ends["plain"].reason
    assert ends["none"].exit_code is None


def test_no_control_group_is_left_when_the_runner_is_killed(tmp_path, memory_groups):
    before = {*memory_groups.glob("tarmac-*")}
    os.mkfifo(tmp_path / "begun")
    process = runner(
        tmp_path,
        f"""
        name: x
        resources: {{memory: 64MiB}}
        command: grep tarmac- /proc/self/cgroup > {tmp_path}/begun; exec sleep 600
        """,
    )
    own = (tmp_path / "begun").read_text().strip().rpartition("/")[2]
    assert memory_groups / own not in before
    task = psutil.Process(int((memory_groups / own / "cgroup.procs").read_text()))
    (guardian,) = [
        other
        for other in psutil.Process(process.pid).children()
        if "guardian.py" in str(other.cmdline())
    ]
    process.kill()
    process.wait()
    _, left = psutil.wait_procs([guardian, task], timeout=limit_s(60))
    assert not left
    assert not (memory_groups / own).exists()


def started(command: list[str], tmp_path: Path, **options) -> Process:
    return start(
        command,
        directory=tmp_path,
        environment=os.environ,
        stdout=tmp_path / "stdout",
        stderr=tmp_path / "stderr",
        **options,
    )


def test_a_process_that_does_not_end_is_looked_at_seldom_and_not_all_the_time(tmp_path):
    process = started(["sleep", "600"], tmp_path)
    process.stopped_for, process.kill_at = "x", 100.0
    process.enforce(100.0, None, None, 0.0)
    assert min(process.times_to_look(None)) > 101
    assert process.finish() == -signal.SIGKILL


def test_an_engine_that_hangs_while_it_kills_a_container_holds_nothing_up(tmp_path):
    process = started(["sleep", "600"], tmp_path, kill_command=("sleep", "600"))
    before = psutil.Process().children()
    process.stopped_for, process.kill_at = "x", 100.0
    process.enforce(100.0, None, None, 0.0)
    (engine,) = {*psutil.Process().children()} - {*before}
    # The client, which tells of the container's end, is left for as long as that may come.
    assert not process.has_ended()
    process.enforce(process.kill_at, None, None, 0.0)
    assert process.finish() == -signal.SIGKILL
    assert not engine.is_running()


@pytest.mark.parametrize(
    ("backoff_s", "number", "expected"),
    [(1, 1, 1), (1, 4, 8), (0, 5000, 0), (1, 5000, 3600), (10, 10, 3600), (7200, 3, 7200)],
)
def test_pauses_double_up_to_an_hour_however_many_there_are(backoff_s, number, expected):
    assert pause_s(backoff_s, number) == expected


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
from collections.abc import Iterator
from pathlib import Path
from tarmac.machine import GpuInfo
from tarmac.jobs import create_run, parse_job, plan_tasks
from tarmac.tasks.machine import Machine
from tarmac.jobs.scheduler import run_tasks
from tarmac.executors import LocalExecutor

class Silent:
    told = started = waited = retrying = ended = lambda *_: None

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
        start_python("-c", _RIVAL, tmp_path, name, stdout=subprocess.PIPE)
        for name in ("one", "two")
    ]
    assert [rival.communicate(timeout=limit_s(240))[0] for rival in rivals] == ["5\n", "5\n"]


def test_a_task_whose_gpu_another_run_holds_is_reported_as_waiting(tmp_path):
    gpus = [GpuInfo("GPU-a", "fast", 2**34)]
    ours, theirs = (
        Machine(cpus=8, memory=2**34, gpus=gpus, leases=tmp_path / "leases") for _ in range(2)
    )
    held = theirs.take(Resources(gpus=1))
    events = []

    class Reporter(Silent):
        def told(self, event) -> None:
            events.append((event.attempt.task.name, event.reason))
            theirs.give_back(held)

    job = parse_job(
        "{name: x, resources: {gpus: 1}, command: 'true', sweep: {repeat: 2}, concurrency: 1}"
    )
    tasks = [*plan_tasks(job, tmp_path)]
    run = create_run(job, tmp_path, tasks, tmp_path / "runs")
    with contextlib.closing(LocalExecutor(ours, tmp_path, run.path / "shared")) as executor:
        counts = run_tasks(tasks, run.path, executor, Reporter(), concurrency=1)
    assert (events, counts) == ([(tasks[0].name, "other runs hold the GPUs")], {"succeeded": 2})


_NESTED = """
import contextlib, json, sys
from collections.abc import Iterator
from pathlib import Path
from tarmac.jobs import create_run, parse_job, plan_tasks, read_machine
from tarmac.executors import LocalExecutor
from tarmac.jobs.progress import Silent
from tarmac.jobs.scheduler import run_tasks
root, depth = Path(sys.argv[1]), int(sys.argv[2])
count = f"set -C; > {root}/taken && rm {root}/taken && echo $CUDA_VISIBLE_DEVICES >> {root}/seen"
again = f"'{sys.executable}' {__file__} {root} {depth - 1}"
command = again + " & " + again + " & wait" if depth else count
job = parse_job(json.dumps(
    {"name": "x", "command": command, "resources": {"gpus": 1}, "timeout": "120s"}
))
run = create_run(job, root, (), root / f"runs-{depth}")
machine = read_machine(leases=root / "leases")
with contextlib.closing(LocalExecutor(machine, root, run.path / "shared")) as executor:
    run_tasks([*plan_tasks(job, root)], run.path, executor, Silent())
"""


def test_runs_within_a_task_take_turns_with_its_gpu(tmp_path, on_machine):
    program = tmp_path / "nested.py"
    program.write_text(_NESTED)
    subprocess.run([sys.executable, program, tmp_path, "1"], env=on_machine("healthy"), check=True)
    assert (tmp_path / "seen").read_text() == "GPU-7d3c132a-675f-077e-3bf7-99d79213d062\n" * 2


def work(job, tmp_path: Path, **options) -> list:
    ends: list = []

    class Watcher:
        def told(self, *_: object) -> None: ...
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
    executor = LocalExecutor(machine, tmp_path, run.path / "shared", **options)
    try:
        run_tasks(tasks, run.path, executor, Watcher())
    finally:
        executor.close()
    return ends

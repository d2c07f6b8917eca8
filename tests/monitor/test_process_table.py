"""Processes as /proc tells of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.monitor.processes import FileId, ProcessTable

CONTAINER = "cd" * 32


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def write_process(proc, pid, parent=1, *, state="S", ticks=500, cpu=(100, 0), **files):
    """Write what the kernel shows of a process, with hostile contents where they may be."""
    directory = proc / str(pid)
    (directory / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    before = [state, parent, *[0] * 9, *cpu, *[0] * 6, ticks, 0, 4]
    (directory / "stat").write_text(f"{pid} (a) b (c)) {' '.join(map(str, before))} 0 0\n")
    contents = {
        "cmdline": b"python\0train.py\0--token\0hunter2hunter2\0",
        "environ": b"",
        "cgroup": b"0::/user.slice\n",
        "status": f"Name:\tx\nNSpid:\t{pid}\n".encode(),
        "comm": b"python\n",
    }
    for name, content in {**contents, **files}.items():
        (directory / name).write_bytes(content)
    return directory


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1700000000\nprocesses 9\n")
    return tmp_path


def test_a_process_comes_with_those_above_it(proc):
    write_process(proc, 30, 20)
    write_process(proc, 20, 10)
    write_process(proc, 10, 0)
    write_process(proc, 99)
    found = ProcessTable(proc).look([30])
    assert sorted(found) == [10, 20, 30]
    assert found[30].parent == 20


def test_a_secret_on_a_command_line_is_not_shown(proc):
    write_process(proc, 30)
    assert ProcessTable(proc).look([30])[30].command == "python train.py --token (hidden)"


def test_of_an_environment_only_what_tells_where_it_belongs_is_kept(proc):
    environ = b"SECRET=1\0SLURM_JOB_ID=81\0RANK=\xff3\0junk\0TARMAC_RUN=a=b\0"
    write_process(proc, 30, environ=environ)
    assert ProcessTable(proc).look([30])[30].variables == {
        "SLURM_JOB_ID": "81",
        "RANK": "�3",
        "TARMAC_RUN": "a=b",
    }


def test_a_process_in_a_container_has_a_number_of_its_own_there(proc):
    status = b"Name:\tx\nNSpid:\t4007\t7\n"
    group = f"0::/system.slice/docker-{CONTAINER}.scope\n".encode()
    write_process(proc, 4007, status=status, cgroup=group)
    found = ProcessTable(proc).look([4007])[4007]
    assert (found.inner_pid, found.container) == (7, CONTAINER)


def test_a_thread_of_the_kernel_has_its_name(proc):
    write_process(proc, 30, cmdline=b"")
    assert ProcessTable(proc).look([30])[30].command == "python"


def test_what_may_not_be_read_is_not_known(proc):
    directory = write_process(proc, 30)
    for name in ("environ", "cgroup", "status"):
        (directory / name).unlink()
    found = ProcessTable(proc).look([30])[30]
    assert (found.variables, found.group, found.container, found.inner_pid) == ({}, "", "", 30)


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_process_that_has_ended_is_none(proc, state):
    write_process(proc, 30, state=state)
    assert ProcessTable(proc).look([30]) == {}


@pytest.mark.parametrize("stat", ["", "30 (x", "30 (x) S", "30 (x) S a b c"])
def test_half_of_what_the_kernel_says_is_nothing(proc, stat):
    write_process(proc, 30)
    (proc / "30" / "stat").write_text(stat)
    assert ProcessTable(proc).look([30, 31]) == {}


def test_processes_that_name_each_other_as_parents_end_somewhere(proc):
    write_process(proc, 30, 31)
    write_process(proc, 31, 30)
    assert sorted(ProcessTable(proc).look([30])) == [30, 31]


def test_cores_kept_busy_are_known_from_the_second_reading_on(proc):
    clock = Clock()
    table = ProcessTable(proc, clock)
    per_s = os.sysconf("SC_CLK_TCK")
    write_process(proc, 30, cpu=(0, 0))
    assert table.look([30])[30].cpu_ratio is None
    write_process(proc, 30, cpu=(3 * per_s, per_s))
    clock.now = 1.0
    assert table.look([30])[30].cpu_ratio is None, "it is not read again so soon"
    clock.now = 2.0
    assert table.look([30])[30].cpu_ratio == pytest.approx(2.0)


def test_a_number_that_has_come_again_is_another_process(proc):
    clock = Clock()
    table = ProcessTable(proc, clock)
    write_process(proc, 30, ticks=500)
    table.look([30])
    write_process(proc, 30, ticks=900, cmdline=b"other\0")
    clock.now = 5.0
    found = table.look([30])[30]
    assert (found.command, found.cpu_ratio) == ("other", None)


def test_a_suspended_process_is_known_as_one(proc):
    write_process(proc, 30, state="T")
    assert ProcessTable(proc).look([30])[30].is_stopped


@pytest.mark.parametrize(
    ("caught", "tells"), [("0000000000000800", True), ("00000001800002f7", False), ("zz", False)]
)
def test_whether_a_process_answers_a_signal_is_read_and_not_guessed(proc, caught, tells):
    status = f"Name:\tx\nNSpid:\t30\nSigCgt:\t{caught}\n".encode()
    write_process(proc, 30, status=status)
    assert ProcessTable(proc).look([30])[30].tells_stack is tells


def test_children_of_all_threads_are_children(proc):
    write_process(proc, 30)
    for thread, children in ((30, "31 32 "), (35, "33 ")):
        directory = proc / "30" / "task" / str(thread)
        directory.mkdir(exist_ok=True)
        (directory / "children").write_text(children)
    assert sorted(ProcessTable(proc).children(30)) == [31, 32, 33]
    assert ProcessTable(proc).children(77) == ()


def test_holders_of_locks_are_told_and_those_that_wait_are_not(proc):
    (proc / "locks").write_text(
        "1: FLOCK  ADVISORY  WRITE 3251 fe:00:1491117 0 EOF\n"
        "1: -> FLOCK  ADVISORY  WRITE 3300 fe:00:1491117 0 EOF\n"
        "2: POSIX  ADVISORY  WRITE 3235 fe:00:5 0 EOF\n"
        "3: FLOCK  ADVISORY  WRITE -1 fe:00:6 0 EOF\n"
        "4: FLOCK  ADVISORY  WRITE 9 fe:zz\n"
        "5:\n"
    )
    assert ProcessTable(proc).lock_holders() == {FileId(0xFE, 0, 1491117): 3251}


def test_where_the_kernel_shows_no_locks_there_are_none(proc):
    assert ProcessTable(proc).lock_holders() == {}


def test_a_real_process_that_holds_a_lock_leads_to_its_directory(tmp_path):
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    lock = tmp_path / ".lock"
    command = [sys.executable, "-c", code, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        table = ProcessTable()
        assert table.locked_directories(other.pid, ".lock") == (tmp_path,)
        found = table.look([other.pid])
        assert {other.pid, os.getpid()} <= found.keys()
        if Path("/proc/locks").exists() and (holder := table.lock_holders().get(FileId.of(lock))):
            assert holder == other.pid

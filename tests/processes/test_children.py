"""What was started is ended with all that it has started, wherever that went."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tarmac.processes import OutputTail, kill_tree, spawn
from tarmac.processes.guardian import has_hidden_variables, is_marked

# Starts a sleeper in its session, and one that leaves it for another parent and session.
_FAMILY = """
import os, sys, time
for leaves in (False, True):
    if os.fork() == 0:
        if leaves:
            os.setsid()
            between = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == between:
                time.sleep(0.001)
        # In one write, or the lines of two processes mix.
        os.write(1, b"ready\\n")
        time.sleep(600)
if sys.argv[1] == "stays":
    time.sleep(600)
"""


@pytest.fixture
def family():
    """Return a function that starts a process with two others; they are gone afterwards."""
    mark = f"TARMAC_TEST={secrets.token_hex(8)}"
    children = []

    def start(leader: str, mark: str = mark):
        child = spawn(
            [sys.executable, "-c", _FAMILY, leader],
            environment=os.environ,
            mark=mark,
            stdout=subprocess.PIPE,
        )
        children.append(child)
        assert child.popen.stdout is not None
        assert [child.popen.stdout.readline() for _ in range(2)] == [b"ready\n"] * 2
        return child

    yield start
    for child in children:
        kill_tree(child)
        child.finish()
        child.popen.stdout.close()


def marked(mark: str) -> list[int]:
    name, _, value = mark.partition("=")
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == value:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("leader", ["stays", "ends"])
def test_a_tree_is_killed_whether_its_leader_has_ended_or_not(family, leader):
    child = family(leader)
    if leader == "ends":
        assert child.wait(60)
    assert len(marked(child.mark)) == (3 if leader == "stays" else 2)
    assert kill_tree(child) == 2
    assert marked(child.mark) == []
    assert child.has_ended()


def test_another_childs_tree_is_left_alone(family):
    one, other = family("stays"), family("stays", f"TARMAC_TEST={secrets.token_hex(8)}")
    assert kill_tree(one) == 2
    assert len(marked(other.mark)) == 3
    assert not other.has_ended()


def test_marks_of_several_kinds_are_kept_by_what_is_started_within(family):
    outer = family("stays")
    name, _, value = outer.mark.partition("=")
    inner = spawn(
        ["sleep", "600"], environment={**os.environ, name: value}, mark="TARMAC_TEST_INNER=1"
    )
    # The inner one is another's session and child, and carries both marks.
    assert kill_tree(outer) == 3
    assert inner.wait(60)
    assert inner.finish() == -signal.SIGKILL


def test_what_was_started_this_moment_is_found_by_its_mark():
    # The kernel shows a process without its environment while it becomes another program: one of
    # fifteen was looked at in between.
    mark = f"TARMAC_TEST={secrets.token_hex(8)}"
    for _ in range(60):
        child = spawn(["sleep", "600"], environment=os.environ, mark=mark)
        found = is_marked(child.popen.pid, mark.encode())
        has_ended = child.has_ended()
        child.finish()
        assert found, "something else has ended it" if has_ended else "it was not found"


# A process that becomes `sleep`, as Linux 6.18 showed it, and others: the fields of
# proc_pid_stat(5) for its memory, its code's end, and where its environment begins and ends.
@pytest.mark.parametrize(
    ("state", "fields", "is_hidden"),
    [
        pytest.param("R", {23: 4096}, True, id="before"),
        pytest.param("R", {23: 430080, 50: 140732946901528, 51: 140732946901528}, True, id="midst"),
        pytest.param("R", {23: 430080, 50: 140721932757528, 51: 140721932759017}, True, id="after"),
        pytest.param("S", {23: 2990080, 27: 94036003829257, 50: 7, 51: 1496}, True, id="by now"),
        pytest.param("S", {23: 2990080, 27: 94036003829257, 50: 7, 51: 7}, False, id="it has none"),
        pytest.param("Z", {}, False, id="ended"),
        pytest.param("S", {}, False, id="the kernel's own"),
    ],
)
def test_a_process_that_becomes_a_program_hides_its_variables_until_all_of_it_is_there(
    state, fields, is_hidden
):
    # The second field may hold anything.
    line = f"7 (a) R b) {state} {' '.join(str(fields.get(number, 0)) for number in range(4, 53))}"
    assert has_hidden_variables(line.encode()) is is_hidden


def test_a_process_without_any_environment_is_looked_at_once():
    child = spawn(["sleep", "600"], environment={})
    try:
        assert not is_marked(child.popen.pid, b"TARMAC_TEST=1")
    finally:
        child.finish()


def test_who_waits_is_told_whether_it_has_ended():
    child = spawn(["sleep", "600"], environment=os.environ)
    assert not child.wait(0)
    child.signal(signal.SIGTERM)
    assert child.wait(60)
    assert child.finish() == -signal.SIGTERM


def test_a_program_that_cannot_be_started_is_an_error_and_leaves_nothing_open():
    before = psutil.Process().num_fds()
    with pytest.raises(FileNotFoundError):
        spawn(["/nowhere/program"], environment=os.environ)
    assert psutil.Process().num_fds() == before


def test_the_end_of_an_output_is_kept_and_all_of_it_is_counted():
    program = "import os\nfor _ in range(64): os.write(1, b'x' * 2**16)\nos.write(1, b'the end')"
    child = spawn([sys.executable, "-c", program], environment=os.environ, stdout=subprocess.PIPE)
    output = OutputTail(child.popen.stdout, 1024)
    text = output.text(60)
    assert child.wait(60)
    assert child.finish() == 0
    assert text.endswith("xthe end")
    assert 1024 <= len(text) <= 1024 + 2**17
    assert output.num_bytes == 64 * 2**16 + len("the end")


_IGNORES_CHILDREN = """
import os, signal, sys, threading
from tarmac.processes import spawn

signal.signal(signal.SIGCHLD, signal.SIG_IGN)

def look():
    try:
        child = spawn(["sh", "-c", "exit 3"], environment=os.environ)
        child.wait(60)
        print(child.finish())
    except OSError as error:
        print(error)

if sys.argv[1] == "main":
    look()
else:
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize(
    ("thread", "said"),
    [
        ("main", "3"),
        ("other", "SIGCHLD is ignored here, so the exit code of a program would be lost"),
    ],
)
def test_where_ended_children_are_ignored_a_failure_is_none_the_less_one(thread, said):
    # Linux then forgets the exit code, and Python makes it 0.
    command = [sys.executable, "-c", _IGNORES_CHILDREN, thread]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == said
    )


_RUNNER = """
import os, pathlib, sys
from tarmac.processes import MARK, guarded, guarded_by_fork, spawn

guard = {"guarded": guarded, "by fork": guarded_by_fork}[sys.argv[1]]
mark, groups = sys.argv[2], pathlib.Path(sys.argv[3])
with guard(mark, groups=groups):
    child = spawn(["sleep", "600"], environment=os.environ, mark=f"{MARK}={sys.argv[4]}")
    (groups / f"tarmac-{mark}-1").mkdir()
    (groups / f"tarmac-{mark}-1" / "cgroup.procs").write_text(str(child.popen.pid))
    print(child.popen.pid, flush=True)
    child.wait(600)
"""


@pytest.mark.parametrize("guard", ["guarded", "by fork"])
@pytest.mark.parametrize("shows_mark", [True, False], ids=["marked", "in a control group"])
def test_a_guardian_outlives_a_signal_to_all_processes_of_a_job(tmp_path, guard, shows_mark):
    mark = secrets.token_hex(8)
    shown = mark if shows_mark else "none"
    command = [sys.executable, "-c", _RUNNER, guard, mark, str(tmp_path), shown]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as runner:
        task = psutil.Process(int(runner.stdout.readline()))
        (guardian,) = (
            child for child in psutil.Process(runner.pid).children() if child.pid != task.pid
        )
        # It listens once it ignores the last of what it ignores.
        while not ignores(guardian.pid, signal.SIGUSR1):
            os.sched_yield()
        guardian.terminate()
        runner.kill()
    task.wait(60)
    guardian.wait(60)


def ignores(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    ignored = next(line.split()[1] for line in lines if line.startswith("SigIgn:"))
    return bool(int(ignored, 16) >> (number - 1) & 1)

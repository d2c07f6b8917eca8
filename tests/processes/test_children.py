"""What was started is ended with all that it has started, wherever that went."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys

import psutil
import pytest

from tarmac.processes import OutputTail, kill_tree, spawn

# Starts a sleeper in its session, and one that leaves it for another parent and session.
_FAMILY = """
import os, sys, time
for leaves in (False, True):
    if os.fork() == 0:
        if leaves:
            os.setsid()
            if os.fork():
                os._exit(0)
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

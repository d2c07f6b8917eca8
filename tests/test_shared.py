"""What workers share is made once, and ends with the process that began the run."""

from __future__ import annotations

import os
import select
import subprocess
import sys

import pytest

import forked
import shared
from forked import run_python


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Have a run of its own for this test."""
    monkeypatch.setenv(shared.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_directory_is_filled_for_the_first_that_asks(run):
    made = [shared.made_once("it", lambda path: (path / "file").touch()) for _ in range(2)]
    assert made == [run / "it", run / "it"]
    shared.made_once("it", pytest.fail)
    assert [*made[0].iterdir()] == [run / "it" / "file"]


def test_what_failed_is_made_again_from_an_empty_directory(run):
    def fail(path):
        (path / "half").touch()
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        shared.made_once("it", fail)
    assert not [*shared.made_once("it", lambda path: None).iterdir()]


def test_the_directory_and_what_waits_end_with_the_process_that_began():
    program = (
        "import os, sys, shared\n"
        "shared.begin()\n"
        "print(os.environ[shared.VARIABLE], flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=os.path.dirname(__file__),  # noqa: PTH120
        text=True,
    ) as process:
        place = process.stdout.readline().strip()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(shared.VARIABLE, place)
            end = shared.lifeline()
        assert not select.select([end], [], [], 0)[0]
        process.communicate("")
    assert select.select([end], [], [])[0] == [end]
    assert os.read(end, 1) == b""
    os.close(end)
    assert not os.path.exists(place)  # noqa: PTH110


def test_workers_fork_from_one_server(monkeypatch):
    program = "import os; print(os.getppid())"
    first = run_python("-c", program).stdout
    # As another worker, which has not asked for it before.
    forked._server.cache_clear()
    assert run_python("-c", program).stdout == first

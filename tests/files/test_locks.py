"""A lock says whether its owner is alive, however that ended."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys

import pytest

from tarmac.files import OwnerLock, is_owned, remove_unowned

OWN = """
import pathlib, sys
from tarmac.files import OwnerLock
lock = OwnerLock(pathlib.Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def owner(tmp_path):
    """Return the path of a lock, and another process that owns it."""
    path = tmp_path / "lock"
    process = subprocess.Popen(
        [sys.executable, "-c", OWN, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "True\n"
    yield path, process
    process.kill()
    process.communicate()


def test_a_lock_is_owned_until_its_process_is_killed(owner):
    path, process = owner
    lock = OwnerLock(path)
    assert is_owned(path)
    assert not remove_unowned(path)
    assert not lock.acquire()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not is_owned(path)
    assert lock.acquire()
    lock.release()
    assert not is_owned(path)


def test_one_that_looks_neither_owns_nor_keeps_others_from_owning(tmp_path):
    path = tmp_path / "lock"
    assert not is_owned(path)
    path.touch()
    with path.open("rb") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        assert not is_owned(path)


def test_the_file_of_an_owner_that_is_gone_is_removed(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    assert remove_unowned(path)
    assert not path.exists()
    assert remove_unowned(path)


def test_a_lock_needs_its_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        OwnerLock(tmp_path / "gone" / "lock").acquire()

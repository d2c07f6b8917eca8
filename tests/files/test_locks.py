"""A lock says whether its owner is alive, however that ended."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock, Timeout

from tarmac.files import (
    OwnerLock,
    StorageError,
    is_held,
    is_owned,
    lease_file,
    locks,
    open_lock,
    remove_unowned,
    taking_turns,
)
from tarmac.studies.study.locks import turns
from waiting import wait_until

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


@pytest.fixture
def mine(open_directory):
    """Return a directory of this user's that all others may read."""
    directory = open_directory / "run"
    directory.mkdir()
    directory.chmod(0o755)
    return directory


def lock_for_reading(path, operation=fcntl.LOCK_EX):
    """Lock a file as anybody can who may read it; return why that failed."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, operation | fcntl.LOCK_NB)
    except OSError as error:
        return error.strerror
    return None


@pytest.fixture
def stranger(second_user):
    """Return a context in which another user holds a lock."""

    @contextlib.contextmanager
    def hold(path, operation):
        (is_held, tells), (waits, ends) = os.pipe(), os.pipe()

        def lock():
            os.close(ends)
            with path.open("rb") as file:
                fcntl.flock(file, operation)
                os.write(tells, b"x")
                os.read(waits, 1)

        thread = threading.Thread(target=second_user, args=[lock])
        thread.start()
        wait_until(
            lambda: select.select([is_held], [], [], 0)[0],
            "the lock of the other user",
            unless=lambda: None if thread.is_alive() else "its process has ended",
        )
        try:
            yield
        finally:
            os.close(ends)
            thread.join()
            for descriptor in (is_held, tells, waits):
                os.close(descriptor)

    return hold


@contextlib.contextmanager
def run_lock(path):
    lock = open_lock(path)
    assert lock.acquire()
    yield
    lock.release()


LOCKED = {
    "owner": lambda path: OwnerLock(path).held(),
    "turns": taking_turns,
    "run": run_lock,
    "study": lambda path: turns(path, "kernel"),
}


@pytest.mark.parametrize("locked", LOCKED.values(), ids=LOCKED)
@pytest.mark.parametrize("is_old", [False, True], ids=["new", "of an older version"])
def test_no_other_user_can_open_a_lock(mine, second_user, locked, is_old):
    path = mine / ".lock"
    if is_old:
        path.touch()
        path.chmod(0o644)
        assert second_user(lambda: lock_for_reading(path)) is None
    for _ in range(2):
        with locked(path):
            assert second_user(lambda: lock_for_reading(path)) == "Permission denied"
        assert second_user(lambda: lock_for_reading(path)) == "Permission denied"


@pytest.mark.parametrize("locked", LOCKED.values(), ids=LOCKED)
@pytest.mark.parametrize("operation", [fcntl.LOCK_EX, fcntl.LOCK_SH], ids=["alone", "shared"])
def test_another_user_who_holds_an_old_lock_keeps_nobody_out(mine, stranger, locked, operation):
    path = mine / ".lock"
    path.touch()
    path.chmod(0o644)
    with stranger(path, operation):
        assert not is_owned(path)
        with locked(path):
            assert is_owned(path)
            assert not OwnerLock(path).acquire()


def test_those_who_may_write_a_directory_may_hold_its_locks(mine):
    for directory, lock in ((0o755, 0o600), (0o775, 0o660), (0o777, 0o666), (0o1777, 0o600)):
        mine.chmod(directory)
        path = mine / f"{directory:o}"
        before = os.umask(0)
        try:
            with OwnerLock(path).held():
                pass
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == lock


@pytest.mark.parametrize("is_first_ours", [True, False])
def test_an_older_version_and_this_one_never_hold_a_lock_together(tmp_path, is_first_ours):
    # Older ones lock by filelock.
    path = tmp_path / ".lock"
    older, ours = FileLock(path, is_singleton=False), OwnerLock(path)
    if is_first_ours:
        assert ours.acquire()
        with pytest.raises(Timeout):
            older.acquire(blocking=False)
        ours.release()
        older.acquire(blocking=False)
    else:
        older.acquire(blocking=False)
        assert is_owned(path)
        assert not ours.acquire()
        older.release()
        assert ours.acquire()


def test_many_that_find_an_old_lock_take_turns(tmp_path):
    path = tmp_path / ".lock"
    inside = []

    def enter():
        with OwnerLock(path).held():
            inside.append(1)
            assert len(inside) == 1
            inside.pop()
            return True

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            path.unlink(missing_ok=True)
            path.touch()
            path.chmod(0o644)
            assert all(entered.result() for entered in [pool.submit(enter) for _ in range(8)])
    assert [*tmp_path.iterdir()] == [path]


def test_another_user_sees_whether_a_run_is_worked_on(mine, second_user):
    path = mine / ".lock"
    lock = open_lock(path)
    assert lock.acquire()
    assert second_user(lambda: (is_held(path), is_owned(path))) == (True, True)
    lease_file(path).unlink()
    assert second_user(lambda: is_held(path))
    lock.release()
    assert second_user(lambda: (is_held(path), is_owned(path))) == (False, False)


def test_a_process_that_tries_again_keeps_no_other_out_meanwhile(tmp_path, monkeypatch):
    path, lock, rival = (
        tmp_path / ".lock",
        OwnerLock(tmp_path / ".lock"),
        OwnerLock(tmp_path / ".lock"),
    )
    path.touch(0o600)
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)

        def pause(_):
            fcntl.flock(looking, fcntl.LOCK_UN)
            monkeypatch.undo()
            assert rival.acquire()

        monkeypatch.setattr(locks.time, "sleep", pause)
        assert not lock.acquire()
    rival.release()


def test_the_hint_on_a_users_own_pipe_does_not_blame_another(tmp_path):
    path = tmp_path / "a lock"
    os.mkfifo(path)
    with pytest.raises(StorageError) as raised:
        OwnerLock(path).acquire()
    assert raised.value.hint == f"It is no lock's file. If no process works there: rm '{path}'"


def test_the_hint_on_a_directory_in_a_locks_place_removes_it(tmp_path):
    path = tmp_path / "a lock"
    path.mkdir()
    (path / "inside").touch()
    with pytest.raises(StorageError) as raised:
        OwnerLock(path).acquire()
    assert raised.value.hint is not None
    subprocess.run(["bash", "-c", raised.value.hint.rpartition(": ")[2]], check=True)
    lock = OwnerLock(path)
    assert lock.acquire()
    lock.release()


PLANTED = {
    "pipe": os.mkfifo,
    "link": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "folder": lambda path: path.mkdir(),
    "lock": lambda path: (path.touch(), path.chmod(0o666)),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("locked", LOCKED.values(), ids=LOCKED)
def test_what_another_user_puts_in_a_locks_place_is_named_and_not_waited_for(
    open_directory, second_user, plant, locked
):
    path = open_directory / ".lock"
    second_user(lambda: plant(path))
    assert not is_held(path)
    with pytest.raises(StorageError, match=r"cannot lock .*\.lock: ") as raised, locked(path):
        pass
    remove = f"rm -r {path}" if path.is_dir() else f"rm {path}"
    assert raised.value.hint == f"It is not this user's. If no process works there: {remove}"
    assert not path.with_name("elsewhere").exists()


def test_a_forked_process_does_not_keep_its_parents_lock(tmp_path):
    path = tmp_path / ".lock"
    lock = OwnerLock(path)
    assert lock.acquire()
    (begins, tells), (waits, ends) = os.pipe(), os.pipe()
    if not (pid := os.fork()):
        os.close(ends)
        os.write(tells, b"x")
        os.read(waits, 1)
        os._exit(0)
    os.read(begins, 1)
    # As when this process is killed: nobody unlocks.
    os.close(lock._descriptor)
    lock._descriptor = None
    assert not is_owned(path)
    for descriptor in (begins, tells, waits, ends):
        os.close(descriptor)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("locked", LOCKED.values(), ids=LOCKED)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_a_lock_that_cannot_be_made_is_an_error_in_words(tmp_path, monkeypatch, locked, code):
    real = os.open

    def broken(path, flags, *rest, **options):
        if str(path).endswith(".lock"):
            raise OSError(code, os.strerror(code), str(path))
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", broken)
    with pytest.raises(StorageError, match="cannot lock"), locked(tmp_path / ".lock"):
        pass

"""A lease says who is alive on hosts that share files, and passes on what the dead held."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tarmac
from tarmac.files import (
    Holder,
    Lease,
    LeaseWatch,
    OwnerLock,
    is_held,
    is_owned,
    lease_file,
    open_lock,
    read_holder,
    read_lease,
)
from tarmac.files.mounts import Mounts, network_type
from waiting import wait_until

HEARTBEAT_INTERVAL_S = 0.2

HOLD = """
import pathlib, sys, time
from tarmac.files import Lease
lease = Lease(pathlib.Path(sys.argv[1]), beat_s=float(sys.argv[2]))
print(lease.acquire(), flush=True)
if sys.stdin.readline().strip() == "once it is lost":
    while not lease.is_lost:
        time.sleep(0.02)
lease.release()
print(lease.is_lost, flush=True)
"""

COUNT = """
import pathlib, sys
from tarmac.files import Lease
path = pathlib.Path(sys.argv[1])
number = path.with_name("number")
for _ in range(40):
    with Lease(path).held():
        number.write_text(str(int(number.read_text()) + 1))
"""

TAKE_TURNS = """
import pathlib, sys
from tarmac.files import hosts_locks, taking_turns
# There is no network file system here.
hosts_locks.is_network = lambda _: bool(sys.argv[2])
path = pathlib.Path(sys.argv[1])
number = path.with_name("number")
for _ in range(20):
    with taking_turns(path):
        assert path.with_name("lock.lease").exists()
        number.write_text(str(int(number.read_text()) + 1))
"""

# No file may grow, as on a full disk.
FULL = """
import pathlib, resource, sys
from tarmac.files import StorageError, open_lock
from tarmac.files import Lease
path = pathlib.Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    Lease(path).acquire()
except StorageError:
    print([each.name for each in path.parent.iterdir()])
print(open_lock(path).acquire())
"""

# Processes of another namespace have numbers of their own, as those of another host.
ELSEWHERE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may unshare")


@pytest.fixture
def hold(tmp_path):
    """Return a function that starts a process which holds a lease, and its end."""
    started = []

    def start(*prefix, beat_s=HEARTBEAT_INTERVAL_S):
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", HOLD, str(tmp_path / "lease"), str(beat_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process, process.stdout.readline().strip() == "True"

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lease"


def test_a_lease_is_held_until_its_process_is_killed(hold, path):
    process, _ = hold()
    watch = LeaseWatch()
    assert watch.is_alive(path)
    assert not Lease(path).acquire()
    process.kill()
    process.wait()
    assert not watch.is_alive(path)
    assert Lease(path).acquire()


def test_a_lease_that_is_given_back_is_free(hold, path):
    # Where its last beat came late, its file may be another one's, and stays.
    process, _ = hold(beat_s=30.0)
    process.communicate("\n")
    assert not path.exists()
    assert not LeaseWatch().is_alive(path)
    assert hold()[1]


@needs_root
def test_a_holder_on_another_host_is_alive_while_its_beat_grows(hold, path):
    # On a busy machine a beat may come late, and three that are missed mean death.
    _, is_held = hold(*ELSEWHERE, beat_s=1.0)
    assert is_held
    assert not Lease(path, beat_s=HEARTBEAT_INTERVAL_S).acquire()
    watch, first = LeaseWatch(), read_lease(path).beat
    assert watch.is_alive(path)
    wait_until(lambda: read_lease(path).beat >= first + 4, "four heartbeats")
    assert watch.is_alive(path)


@needs_root
def test_a_holder_on_another_host_is_dead_after_three_missed_beats(hold, path):
    process, _ = hold(*ELSEWHERE)
    watch = LeaseWatch()
    assert watch.is_alive(path)
    process.kill()
    process.wait()
    wait_until(lambda: not watch.is_alive(path), "the lease's end")
    assert hold()[1]


@needs_root
def test_a_holder_that_was_suspended_for_too_long_learns_that_it_has_lost(hold, path):
    process, _ = hold(*ELSEWHERE)
    inside = int(
        subprocess.run(
            ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
        ).stdout
    )
    os.kill(inside, signal.SIGSTOP)
    lease = Lease(path, beat_s=HEARTBEAT_INTERVAL_S)
    assert lease.acquire()
    mine = read_lease(path).nonce
    os.kill(inside, signal.SIGCONT)
    # What it has not lost is not taken back by the one that came too late.
    said, _ = process.communicate("once it is lost\n")
    assert said == "True\n"
    assert read_lease(path).nonce == mine
    lease.release()


def test_of_many_that_take_over_from_the_dead_one_does(path, hold):
    process, _ = hold()
    process.kill()
    process.wait()
    won = []
    barrier = threading.Barrier(8)

    def take():
        lease = Lease(path)
        barrier.wait()
        if lease.acquire():
            won.append(lease)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_a_take_over_that_was_cut_short_is_taken_over_itself(hold, path):
    process, _ = hold()
    process.kill()
    process.wait()
    dead = read_lease(path)
    # Killed between its claim and its lease.
    half = dataclasses.replace(dead, nonce="half")
    path.with_name(f"lease.{dead.nonce}.after").write_text(json.dumps(dataclasses.asdict(half)))
    assert read_lease(path).nonce == "half"
    lease = Lease(path)
    assert lease.acquire()
    assert not Lease(path).acquire()
    lease.release()
    assert read_lease(path) is None


def test_two_processes_never_hold_it_at_once(path):
    path.with_name("number").write_text("0")
    both = [subprocess.Popen([sys.executable, "-c", COUNT, str(path)]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert path.with_name("number").read_text() == "80"


@pytest.mark.parametrize("is_network", [False, True])
def test_many_processes_take_turns_wherever_the_file_is(tmp_path, is_network):
    # What an older version has locked by the kernel is still there.
    (tmp_path / "lock").touch()
    (tmp_path / "number").write_text("0")
    command = [sys.executable, "-c", TAKE_TURNS, str(tmp_path / "lock"), str(is_network or "")]
    three = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in three] == [0, 0, 0]
    assert (tmp_path / "number").read_text() == "60"
    assert not (tmp_path / "lock.lease").exists()


def test_no_room_locks_by_the_kernel_alone_without_choosing_to():
    root = Path(tarmac.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if {"OwnerLock(", "FileLock("}
        & set(re.findall(r"\w+Lock\(", path.read_text(encoding="utf-8")))
    }
    assert found == {"files/hosts_locks.py", "files/locks.py", "studies/study/locks.py"}


def test_what_cannot_be_read_counts_as_alive(path):
    path.write_text("no lease")
    assert LeaseWatch().is_alive(path)


def test_a_directory_that_was_removed_stays_away(tmp_path):
    with pytest.raises(FileNotFoundError):
        Lease(tmp_path / "gone" / "lease").acquire()
    assert not (tmp_path / "gone").exists()


MOUNTINFO = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
36 22 0:31 / /home rw shared:1 - nfs4 server:/home rw,vers=4.2
37 36 0:32 / /home/local\\040disk rw - xfs /dev/sdb1 rw
38 22 0:33 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw,flock
39 22 0:34 / /mnt/sshfs rw - fuse.sshfs host:/ rw
42 22 0:37 / /mnt/plain rw - fuse /dev/fuse rw
40 22 0:35 / /late rw - ext4 /dev/sdc1 rw
41 22 0:36 / /late rw - nfs server:/late rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var", None),
        ("/home/ada/runs", "nfs4"),
        ("/homes", None),
        ("/home/local disk/runs", None),
        ("/scratch", "lustre"),
        ("/mnt/sshfs/a", "fuse.sshfs"),
        ("/mnt/plain/a", "fuse"),
        ("/late/a", "nfs"),
    ],
)
def test_network_file_systems_are_told_from_local_ones(tmp_path, path, expected):
    (tmp_path / "mountinfo").write_text(MOUNTINFO)
    assert network_type(path, Mounts(tmp_path / "mountinfo")) == expected


HOLD_LOCK = """
import pathlib, sys
from tarmac.files import open_lock
lock = open_lock(pathlib.Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""

VIEWS = pytest.mark.parametrize(
    ("holders_view", "view"), [(a, b) for a in ("local", "network") for b in ("local", "network")]
)


@pytest.fixture
def host(monkeypatch):
    """Return a function that makes this process one of a host that mounts all files in a way."""

    def become(name: str, view: str, beat_s: float = HEARTBEAT_INTERVAL_S):
        monkeypatch.setattr("tarmac.files.holders.kernel_name", lambda: name)
        monkeypatch.setattr("tarmac.files.hosts_locks.is_network", lambda _: view == "network")
        monkeypatch.setattr("tarmac.files.hosts_locks.HEARTBEAT_INTERVAL_S", beat_s)

    return become


def leave(path, *, kernel="a", is_kernel_locked=False, beat_s=0.02):
    """Leave the lease of a process that was killed on a host."""
    holder = Holder(kernel, kernel, 1, 1, "left", 7, beat_s, is_kernel_locked)
    lease_file(path).write_text(json.dumps(dataclasses.asdict(holder)))
    return holder


@VIEWS
def test_a_lock_holds_between_hosts_however_each_mounts_its_directory(
    tmp_path, host, holders_view, view
):
    path = tmp_path / ".lock"
    host("a", holders_view)
    lock = open_lock(path)
    assert lock.acquire()
    host("b", view)
    assert is_held(path)
    assert not open_lock(path).acquire()
    lock.release()
    assert not is_held(path)
    other = open_lock(path)
    assert other.acquire()
    other.release()


@pytest.mark.parametrize("view", ["local", "network"])
def test_what_was_killed_on_another_host_is_taken_over_once_its_beats_stop(tmp_path, host, view):
    path, watch = tmp_path / ".lock", LeaseWatch()
    host("b", view)
    # The kernel's lock leaves an empty file.
    path.touch()
    leave(path)
    assert is_held(path, watch)
    wait_until(lambda: not is_held(path, watch), "the lease's end")
    lock = open_lock(path)
    assert lock.acquire()
    assert read_holder(path).kernel == "b"
    lock.release()


def test_what_was_killed_on_this_host_is_taken_over_at_once(tmp_path):
    path = tmp_path / ".lock"
    command = [sys.executable, "-c", HOLD_LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"True\n"
        assert is_held(path)
        process.kill()
    # Its beats would be missed after half a minute.
    assert not is_held(path)
    assert lease_file(path).exists()
    lock = open_lock(path)
    assert lock.acquire()
    lock.release()
    assert not lease_file(path).exists()


def test_what_the_machine_took_with_it_is_free_once_it_is_back(tmp_path, host):
    host("the same machine, started again", "local", beat_s=3600)
    leave(tmp_path / ".lock", is_kernel_locked=True, beat_s=3600)
    assert not is_held(tmp_path / ".lock")
    lock = open_lock(tmp_path / ".lock")
    assert lock.acquire()
    lock.release()


@pytest.mark.parametrize("damage", ["directory", "pipe", "bytes", "list"])
def test_a_damaged_lease_holds_where_the_kernels_lock_does_not_tell(tmp_path, host, damage):
    host("b", "local")
    path = tmp_path / ".lock"
    lock = open_lock(path)
    assert lock.acquire()
    lock.release()
    if damage == "directory":
        lease_file(path).mkdir()
    elif damage == "pipe":
        os.mkfifo(lease_file(path))
    else:
        lease_file(path).write_bytes(b"\xff\0" if damage == "bytes" else b"[1, 2]")
    assert not is_held(path)
    assert is_held(path, is_remote=True)


@pytest.mark.parametrize("view", ["local", "network"])
def test_an_empty_file_that_a_crash_has_left_holds_nothing(tmp_path, host, view):
    host("b", view)
    path = tmp_path / ".lock"
    for _ in range(2):
        path.touch()
        lease_file(path).write_bytes(b"")
        assert not is_held(path)
        first, second = open_lock(path), open_lock(path)
        assert (first.acquire(), second.acquire()) == (True, False)
        first.release()


@pytest.mark.parametrize("view", ["local", "network"])
def test_a_lease_of_an_older_version_in_the_locks_own_file_holds_until_it_is_dead(
    tmp_path, host, view
):
    # Written on hosts that saw the directory over the network.
    path = tmp_path / ".lock"
    host("a", "network")
    lease = Lease(path, beat_s=HEARTBEAT_INTERVAL_S)
    assert lease.acquire()
    host("b", view)
    assert is_held(path)
    assert not open_lock(path).acquire()
    lease.release()
    holder = dataclasses.asdict(leave(path))
    lease_file(path).unlink()
    del holder["is_kernel_locked"]
    path.write_text(json.dumps(holder))
    lock = open_lock(path)
    assert lock.acquire()
    lock.release()
    assert not is_held(path)


def test_an_older_version_on_this_host_sees_that_a_lock_is_held(tmp_path):
    lock = open_lock(tmp_path / ".lock")
    assert lock.acquire()
    assert is_owned(tmp_path / ".lock")
    assert not OwnerLock(tmp_path / ".lock").acquire()
    lock.release()


def test_a_full_disk_is_not_filled_with_parts_of_leases(path):
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    # A run there can still be held, as it must be to be removed.
    assert done.stdout == "[]\nTrue\n", done.stderr


ON_ANOTHER_HOST = """
hostname b && bindfs {subtype} {directory} {directory} && {python} -c '
import pathlib, sys
from tarmac.files import is_held, lease, network_type, open_lock
lease.HEARTBEAT_INTERVAL_S = 0.2
path = pathlib.Path("{directory}/.lock")
lock = open_lock(path)
print(network_type(path), is_held(path), lock.acquire(), flush=True)
sys.stdin.read()
'
"""


@needs_root
@pytest.mark.skipif(
    not (shutil.which("bindfs") and Path("/dev/fuse").exists()),
    reason="needs bindfs: apt-get install bindfs",
)
@pytest.mark.parametrize("subtype", ["", "-o subtype=nfsx"])
def test_a_lock_holds_between_a_host_and_one_that_mounts_its_directory(
    tmp_path, monkeypatch, subtype
):
    monkeypatch.setattr("tarmac.files.hosts_locks.HEARTBEAT_INTERVAL_S", 0.2)
    directory, path = tmp_path / "runs", tmp_path / "runs" / ".lock"
    directory.mkdir()
    script = ON_ANOTHER_HOST.format(directory=directory, subtype=subtype, python=sys.executable)
    command = [*ELSEWHERE, "--uts", "--mount", "bash", "-c", script]

    def start():
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    kind = "fuse.nfsx" if subtype else "fuse"
    lock = open_lock(path)
    assert lock.acquire()
    with start() as other:
        assert other.communicate()[0].split() == [kind, "True", "False"]
    lock.release()
    with start() as other:
        assert other.stdout.readline().split() == [kind, "False", "True"]
        assert is_held(path)
        assert not open_lock(path).acquire()
        other.communicate()

"""What happens to GPUs while they are watched: by the kernel's log, the journal, and the driver."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import pytest

from tarmac.checks import KernelWatch
from tarmac.machine import XidSeen
from waiting import wait_until

_LONG_S = 60.0
_XID_94 = (
    "4,901,660000000,-;NVRM: Xid (PCI:0000:9c:00): 94, pid=7194, name=python, Contained: SM (0x1)."
)
_XID_31 = "4,902,660000001,-;NVRM: Xid (PCI:0000:1a:00): 31, pid=7, name=python, MMU Fault"
_KILL = "3,9,6,-;Out of memory: Killed process 99 (python3) total-vm:9kB, anon-rss:1048576kB, x"


@pytest.fixture
def log(tmp_path):
    """Return a log with an error from before, and a function that appends to it."""
    path = tmp_path / "kmsg"
    path.write_text(_XID_31 + "\n")

    def append(*lines: str) -> None:
        with path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    return path, append


def _seen(number: int, address: str | None = "0000:9c:00.0") -> XidSeen:
    return XidSeen(number, "GPU-1", datetime.now(UTC), address)


def test_what_the_log_says_from_now_on_is_told_once(log):
    path, append = log
    watch = KernelWatch(path)
    assert watch.new() == ()
    append("6,900,1,-;eth0: link up", _XID_94, " SUBSYSTEM=pci", _XID_94, _KILL)
    xid, kill = watch.new()
    assert (xid.code, xid.number, xid.address) == ("xid-contained", 94, "0000:9c:00")
    assert (xid.words, xid.pid, xid.process) == (
        *("Xid 94, contained memory error", 7194, "python"),
    )
    assert xid.action
    assert xid.at.tzinfo is not None
    assert (kill.code, kill.pid, kill.process, kill.address) == (
        *("oom-killed", 99, "python3", None),
    )
    assert watch.new() == ()
    watch.close()


def test_an_error_in_the_log_and_of_the_driver_is_told_once(log):
    path, append = log
    watch = KernelWatch(path)
    append(f"4,903,{_now_us()},-;NVRM: Xid (PCI:0000:9c:00): 94, pid=7194, name=python, x")
    (news,) = watch.new([_seen(94)])
    assert (news.number, news.pid) == (94, 7194)
    assert watch.new([_seen(94)]) == ()
    # Another GPU's is another.
    (other,) = watch.new([_seen(94, "0000:1a:00.0")])
    assert (other.address, other.gpu_uuid, other.pid) == ("0000:1a:00", "GPU-1", None)
    watch.close()


def test_where_the_log_may_not_be_read_the_driver_is_heard(tmp_path):
    watch = KernelWatch(tmp_path / "none", journal=lambda since: "")
    (news,) = watch.new([_seen(79, None)])
    assert (news.number, news.words, news.address) == (
        *(79, "Xid 79, the GPU has fallen off the bus", None),
    )
    watch.close()


def test_an_error_that_nobody_knows_is_told_by_its_number(tmp_path):
    watch = KernelWatch(tmp_path / "none", journal=lambda since: "")
    (news,) = watch.new([_seen(123456)])
    assert (news.code, news.number) == ("xid-unknown", 123456)
    watch.close()


def test_the_journal_is_read_every_half_a_minute_and_never_waited_for(tmp_path):
    now, asked, may_answer = [0.0], threading.Semaphore(0), threading.Event()
    line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00} kernel: {_XID_31.partition(';')[2]}"

    def journal(since: datetime) -> str:
        assert since.tzinfo is not None
        asked.release()
        may_answer.wait(_LONG_S)
        return line

    watch = KernelWatch(tmp_path / "none", journal=journal, clock=lambda: now[0])
    assert watch.new() == ()
    assert not asked.acquire(blocking=False)
    now[0] = 30.0
    assert watch.new() == ()
    assert asked.acquire(timeout=_LONG_S)
    # It hangs for an hour.
    now[0] = 3630.0
    assert watch.new() == ()
    may_answer.set()
    news = wait_until(watch.new, "the line of the journal")
    assert [(one.number, one.pid) for one in news] == [(31, 7)]
    assert not asked.acquire(blocking=False)
    watch.close()


def _now_us() -> int:
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)

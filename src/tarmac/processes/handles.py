"""Handles that signal exactly the process that was found, and none that has reused its ID.

A descriptor from pidfd_open(2) always means the same process. Linux before 5.3, and a Python built
for it, cannot open processes; handles there use the ID alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from tarmac.process_ids import start_ticks
from tarmac.processes.guardian import open_process


class Handle(NamedTuple):
    """A process that can be signalled.

    Attributes:
        pid: Process ID, which the kernel may reuse after the process ends.
        pidfd: Descriptor of exactly this process; None where the kernel or Python cannot open
            processes.
    """

    pid: int
    pidfd: int | None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; do nothing where the process is gone or belongs to another user."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.pidfd is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self.pidfd, number)


@contextlib.contextmanager
def open_handles(find: Callable[[], Collection[int]]) -> Iterator[list[Handle]]:
    """Yield handles of the processes that a search finds, and close them afterwards.

    Args:
        find: Returns process IDs. Called again once the processes are open, and only IDs that are
            found again are kept: those are the opened processes, unless these have ended.
    """
    with contextlib.ExitStack() as opened:
        handles = []
        for pid in find():
            with contextlib.suppress(OSError):
                handle = Handle(pid, open_process(pid))
                if handle.pidfd is not None:
                    opened.callback(os.close, handle.pidfd)
                handles.append(handle)
        still = {*find()} if handles else set()
        yield [handle for handle in handles if handle.pid in still]


def end_descriptor(pid: int) -> int:
    """Return a descriptor that becomes readable when a child of this process ends.

    Raises:
        OSError: Too many files are open.
    """
    opened = open_process(pid)
    if opened is not None:
        return opened
    ours, theirs = os.pipe()

    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.close(theirs)

    threading.Thread(target=wait, name="tarmac-end", daemon=True).start()
    return ours


def descendants(pid: int) -> list[int]:
    """Return the IDs of a process's descendants; those whose parent has ended are missing."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The program's name, in parentheses, may be any text; see proc_pid_stat(5).
                stat = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(stat[1]), []).append(int(entry.name))
    pids = [*children.get(pid, ())]
    for parent in pids:
        pids += children.get(parent, ())
    return pids


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    return start_ticks(pid) is None


def resident_bytes(pid: int) -> int:
    """Return a process's resident memory in bytes; 0 where the process is gone."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0

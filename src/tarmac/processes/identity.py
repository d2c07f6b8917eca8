"""The identity of a process: an ID alone may be reused, and clocks can be set."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple


class ProcessIdentity(NamedTuple):
    """The identity of one process, distinct from all others that ever have its ID.

    Attributes:
        pid: Process ID, which the kernel may reuse after the process ends.
        start_ticks: Start time in clock ticks since the boot; setting the clock does not change it.
        boot_id: ID of the boot that the process runs in, from ``/proc/sys/kernel/random/boot_id``.
        host: Host name of the machine, as ``uname -n`` prints it.
    """

    pid: int
    start_ticks: int
    boot_id: str
    host: str

    def is_alive(self) -> bool:
        """Return whether the process runs; False for a zombie and on another machine."""
        try:
            return identify(self.pid) == self
        except ProcessLookupError:
            return False

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to this process, and to no other that has its ID by now.

        Returns:
            Whether the process was running.

        Raises:
            PermissionError: The process belongs to another user.
        """
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                # If this process is alive now, the descriptor is of this process.
                if self.is_alive():
                    signal.pidfd_send_signal(descriptor, number)
                    return True
            finally:
                os.close(descriptor)
        return False


def identify(pid: int) -> ProcessIdentity:
    """Return the identity of a running process of this machine.

    Args:
        pid: Process ID to look up on this machine.

    Raises:
        ProcessLookupError: No process has this ID, or it has ended.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError as error:
        raise ProcessLookupError(f"there is no process {pid}") from error
    # The program's name, in parentheses, may be any text; see proc_pid_stat(5) for the fields.
    fields = stat.rpartition(")")[2].split()
    state, start_ticks = fields[0], int(fields[19])
    if state in "ZX":
        raise ProcessLookupError(f"process {pid} has ended")
    return ProcessIdentity(pid, start_ticks, boot_id, os.uname().nodename)

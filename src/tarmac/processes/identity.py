"""Which process that was: a number alone comes again, and clocks can be set."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple


class ProcessIdentity(NamedTuple):
    """A process, told from all others that ever had or will have its number.

    Attributes:
        pid: Process ID, which the kernel may reuse after the process ends.
        start_ticks: When it began, in clock ticks since the machine's start, which setting the
            clock does not change.
        boot_id: ID of the boot that the process runs in, from ``/proc/sys/kernel/random/boot_id``.
        host: Host name of the machine, as ``uname -n`` prints it.
    """

    pid: int
    start_ticks: int
    boot_id: str
    host: str

    def is_alive(self) -> bool:
        """Whether it runs, and has not merely not been waited for; False on another machine."""
        try:
            return identify(self.pid) == self
        except ProcessLookupError:
            return False

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to this process and to no other that has its number by now.

        Returns:
            Whether it was there.

        Raises:
            PermissionError: It is another user's.
        """
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                # What was opened is this one if that is alive now.
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
        ProcessLookupError: There is none.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError as error:
        raise ProcessLookupError(f"there is no process {pid}") from error
    # The program's name, in parentheses, may hold anything; see proc_pid_stat(5) for the fields.
    fields = stat.rpartition(")")[2].split()
    state, start_ticks = fields[0], int(fields[19])
    if state in "ZX":
        raise ProcessLookupError(f"process {pid} has ended")
    return ProcessIdentity(pid, start_ticks, boot_id, os.uname().nodename)

"""The identity of a process: an ID alone may be reused, and clocks can be set."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NamedTuple

from tarmac.process_ids import boot_id, start_ticks


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
        ticks, boot = start_ticks(pid), boot_id()
    except OSError as error:
        raise ProcessLookupError("the kernel reports no boot ID") from error
    if ticks is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return ProcessIdentity(pid, ticks, boot, os.uname().nodename)

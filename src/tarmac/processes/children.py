"""Starts a process, and ends it with all its descendants.

A child leads a session of its own, so that Ctrl-C reaches only Tarmac, which then decides about its
children. A child may have a mark: an environment variable that its descendants inherit. The mark
finds descendants that have left the session.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from tarmac.processes.guardian import is_marked, process_ids
from tarmac.processes.handles import descendants, end_descriptor, has_ended, open_handles

# Seconds to wait after SIGKILL. A process on a device that hangs may take longer; it is then left
# to the kernel.
_GONE_WITHIN_S = 5.0


class Child(NamedTuple):
    """A process that was started by `spawn`.

    Only `finish` reaps the process, so no other process can have its ID until then.

    Attributes:
        popen: Process that leads the session.
        pidfd: Descriptor that becomes readable when the leader ends.
        mark: Variable in the environments of the process and its descendants, ``NAME=VALUE``; may
            be empty.
    """

    popen: subprocess.Popen[bytes]
    pidfd: int
    mark: str = ""

    def has_ended(self) -> bool:
        """Return whether the session's leader has ended; it is not reaped yet."""
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.popen.pid, options) is not None
        except ChildProcessError:
            # Where SIGCHLD is ignored, the kernel reaps children itself.
            return True

    def wait(self, timeout_s: float) -> bool:
        """Wait for the session's leader, and return whether it ended in time."""
        _wait_for([self.pidfd], timeout_s)
        return self.has_ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, number)

    def finish(self) -> int:
        """Kill the rest of the session, reap its leader, and return the leader's exit code."""
        # Signalled before the leader is reaped: afterwards its ID may be another session's.
        self.signal(signal.SIGKILL)
        code = self.popen.wait()
        os.close(self.pidfd)
        return code


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    mark: str = "",
    directory: Path | None = None,
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    pass_fds: Sequence[int] = (),
    before: Callable[[], None] | None = None,
) -> Child:
    """Start a program in a session of its own.

    Args:
        command: The program and its arguments.
        environment: All environment variables of the program, except the mark.
        mark: Variable that identifies the process and its descendants, ``NAME=VALUE``. Default:
            none.
        directory: Working directory of the program. Default: this process's.
        stdin: Standard input, as for `subprocess.Popen`. Default: nothing to read.
        stdout: Standard output, as for `subprocess.Popen`. Default: inherited.
        stderr: Standard error, as for `subprocess.Popen`. Default: inherited.
        pass_fds: File descriptors that the program inherits.
        before: Called in the new process before it executes the program; allowed only while this
            process has one thread, as a fork copies no other.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument or a variable is not valid, such as one with a NUL.
    """
    _keep_exit_codes()
    name, _, value = mark.partition("=")
    try:
        popen = subprocess.Popen(
            command,
            cwd=directory,
            env={**environment, name: value} if mark else environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=pass_fds,
            preexec_fn=before,  # noqa: PLW1509 - only while this process has one thread
        )
    except subprocess.SubprocessError as error:
        raise OSError("the setup before the program failed") from error
    try:
        return Child(popen, end_descriptor(popen.pid), mark)
    except OSError:
        # Without a descriptor, as too many files are open, the child could not be supervised.
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise


def _keep_exit_codes() -> None:
    """Make the kernel keep exit codes, as a parent process may have ignored SIGCHLD.

    Raises:
        OSError: SIGCHLD is ignored, and this is not the main thread, which alone can change that.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        except ValueError as error:
            words = "SIGCHLD is ignored here, so the exit code of a program would be lost"
            raise OSError(words) from error


def kill_tree(child: Child, *, patience_s: float = _GONE_WITHIN_S) -> int:
    """Kill a child's session, its descendants and all processes with its mark, and wait for them.

    Call it before `Child.finish`.

    Args:
        child: Child to kill; it may have ended.
        patience_s: Seconds to wait until the processes are gone. Default 5.

    Returns:
        Number of killed processes other than the child itself.
    """

    def find() -> list[int]:
        return _others(child)

    with open_handles(find) as others:
        child.signal(signal.SIGKILL)
        for other in others:
            other.send(signal.SIGKILL)
        pidfds = [other.pidfd for other in others if other.pidfd is not None]
        _wait_for([child.pidfd, *pidfds], patience_s)
        return len(others)


def _others(child: Child) -> list[int]:
    """Return the running processes that belong to a child, without the child itself."""
    leader = child.popen.pid
    below = {*descendants(leader)}

    def belongs(pid: int) -> bool:
        with contextlib.suppress(OSError):
            if pid in below or os.getsid(pid) == leader:
                return not has_ended(pid)
        return bool(child.mark) and is_marked(pid, child.mark.encode())

    return [pid for pid in process_ids() if pid != leader and belongs(pid)]


def _wait_for(descriptors: Sequence[int], timeout_s: float) -> None:
    """Wait until all processes of some descriptors have ended, at most ``timeout_s``."""
    end = time.monotonic() + timeout_s
    poll = select.poll()
    left = set(descriptors)
    for descriptor in left:
        poll.register(descriptor, select.POLLIN)
    while left:
        ended = poll.poll(max(0.0, 1000 * (end - time.monotonic())))
        if not ended:
            return
        for descriptor, _ in ended:
            poll.unregister(descriptor)
            left.discard(descriptor)

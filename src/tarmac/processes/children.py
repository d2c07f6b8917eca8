"""The one way to start a process and to end it with all that it has started.

A child leads a session of its own: Ctrl-C is for Tarmac alone, which decides what becomes of its
children. It may carry a mark, a variable in its environment that its own children inherit: by that,
those that have left its session are found as well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import signal
import subprocess
import time
from typing import IO, TYPE_CHECKING

import psutil

from tarmac.processes.guardian import is_marked, process_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Child", "kill_tree", "spawn"]

# What SIGKILL does not end within this, a process on a device that hangs, is left to the kernel.
_GONE_WITHIN_S = 5.0


@dataclasses.dataclass(frozen=True)
class Child:
    """A process that was started by `spawn`.

    Its number is waited for in `finish` alone, so until then no other process can have it.

    Attributes:
        popen: The leader of its session.
        pidfd: Becomes readable when the leader ends.
        mark: What it and its children have in their environment, ``NAME=VALUE``; may be empty.
    """

    popen: subprocess.Popen[bytes]
    pidfd: int
    mark: str = ""

    def has_ended(self) -> bool:
        """Whether its leader has ended; it is not waited for yet."""
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PIDFD, self.pidfd, options) is not None
        except ChildProcessError:
            # Where SIGCHLD is ignored, the kernel waits for children itself.
            return True

    def wait(self, timeout_s: float) -> bool:
        """Return whether its leader ends within some seconds."""
        _wait_for([self.pidfd], timeout_s)
        return self.has_ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, number)

    def finish(self) -> int:
        """Kill what is left of its session, and return its leader's exit code."""
        # Before it is waited for: afterwards its number may be another session's.
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
) -> Child:
    """Start a program in a session of its own.

    Args:
        command: The program and its arguments.
        environment: All of its variables, but for the mark.
        mark: A variable that it and its children are found by, ``NAME=VALUE``; none by default.
        directory: Where it starts; by default this process's.
        stdin: As for `subprocess.Popen`; nothing to read by default.
        stdout: As for `subprocess.Popen`.
        stderr: As for `subprocess.Popen`.
        pass_fds: Descriptors that it inherits.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument or a variable cannot be passed on, such as one with a NUL.
    """
    name, _, value = mark.partition("=")
    popen = subprocess.Popen(
        command,
        cwd=directory,
        env={**environment, name: value} if mark else environment,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        pass_fds=pass_fds,
    )
    try:
        return Child(popen, os.pidfd_open(popen.pid), mark)
    except OSError:
        # There are too many open files.
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise


def kill_tree(child: Child, *, patience_s: float = _GONE_WITHIN_S) -> int:
    """Kill a child's session, its descendants and all that carries its mark, and see them gone.

    Call it before `Child.finish`.

    Args:
        child: The one to kill; it may have ended.
        patience_s: How long to wait until they are gone, in seconds.

    Returns:
        How many processes ran beside the child itself.
    """
    descriptors: list[int] = []
    try:
        descriptors += _open_others(child)
        child.signal(signal.SIGKILL)
        for descriptor in descriptors:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        _wait_for([child.pidfd, *descriptors], patience_s)
        return len(descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _open_others(child: Child) -> Iterator[int]:
    """Yield descriptors of the processes that belong to a child, without itself, and run."""
    leader = child.popen.pid
    descendants: set[int] = set()
    with contextlib.suppress(psutil.Error):
        descendants = {other.pid for other in psutil.Process(leader).children(recursive=True)}

    def belongs(pid: int) -> bool:
        with contextlib.suppress(OSError):
            if pid in descendants or os.getsid(pid) == leader:
                return True
        return bool(child.mark) and is_marked(pid, child.mark.encode())

    for pid in process_ids():
        if pid == leader or not belongs(pid):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            # What belongs to the child after it was opened is what was opened, or that has ended.
            if belongs(pid) and not select.select([descriptor], [], [], 0)[0]:
                yield descriptor
            else:
                os.close(descriptor)


def _wait_for(descriptors: Sequence[int], timeout_s: float) -> None:
    """Wait until all of some processes have ended, for some seconds at most."""
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

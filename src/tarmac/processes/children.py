"""The one way to start a process and to end it with all that it has started.

A child leads a session of its own: Ctrl-C is for Tarmac alone, which decides what becomes of its
children. It may carry a mark, a variable in its environment that its own children inherit: by that,
those that have left its session are found as well.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from typing import IO, TYPE_CHECKING, NamedTuple

from tarmac.processes.guardian import is_marked, process_ids
from tarmac.processes.handles import descendants, end_descriptor, has_ended, open_handles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# What SIGKILL does not end within this, a process on a device that hangs, is left to the kernel.
_GONE_WITHIN_S = 5.0


class Child(NamedTuple):
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
            return os.waitid(os.P_PID, self.popen.pid, options) is not None
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
    before: Callable[[], None] | None = None,
) -> Child:
    """Start a program in a session of its own.

    Args:
        command: The program and its arguments.
        environment: All of its variables, but for the mark.
        mark: A variable that it and its children are found by, ``NAME=VALUE``; none by default.
        directory: Where it starts; by default this process's.
        stdin: Standard input, as for `subprocess.Popen`. Default: nothing to read.
        stdout: Standard output, as for `subprocess.Popen`. Default: inherited.
        stderr: Standard error, as for `subprocess.Popen`. Default: inherited.
        pass_fds: Descriptors that it inherits.
        before: Called in the new process before it becomes the program; only where this process
            has one thread, for a copy of it has no other.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument or a variable cannot be passed on, such as one with a NUL.
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
            preexec_fn=before,  # noqa: PLW1509 - of a process with one thread
        )
    except subprocess.SubprocessError as error:
        raise OSError("what was to be done before the program has failed") from error
    try:
        return Child(popen, end_descriptor(popen.pid), mark)
    except OSError:
        # There are too many open files.
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise


def _keep_exit_codes() -> None:
    """See that the kernel keeps exit codes, which a parent may have told it not to.

    Raises:
        OSError: It does not, and this is not the thread that can change that.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        except ValueError as error:
            words = "SIGCHLD is ignored here, so nobody could tell how a program ended"
            raise OSError(words) from error


def kill_tree(child: Child, *, patience_s: float = _GONE_WITHIN_S) -> int:
    """Kill a child's session, its descendants and all that carries its mark, and see them gone.

    Call it before `Child.finish`.

    Args:
        child: The one to kill; it may have ended.
        patience_s: How long to wait until they are gone, in seconds.

    Returns:
        How many processes ran beside the child itself.
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
    """Return the processes that belong to a child, without itself, and run."""
    leader = child.popen.pid
    below = {*descendants(leader)}

    def belongs(pid: int) -> bool:
        with contextlib.suppress(OSError):
            if pid in below or os.getsid(pid) == leader:
                return not has_ended(pid)
        return bool(child.mark) and is_marked(pid, child.mark.encode())

    return [pid for pid in process_ids() if pid != leader and belongs(pid)]


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

"""A task's process: its limits on time and memory, and its end with all its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tarmac.processes import guardian
from tarmac.processes.children import Child, spawn
from tarmac.processes.handles import descendants, open_handles, resident_bytes

if TYPE_CHECKING:
    from tarmac.processes.cgroup import MemoryGroup

MARK = "TARMAC_RUN"

# Runs a module from an archive; the first two arguments name both.
_FROM_ARCHIVE = """\
import sys, zipimport
archive, module = sys.argv[1:3]
del sys.argv[1:3]
exec(zipimport.zipimporter(archive).get_code(module))
"""

# Seconds between repeated kills: on a device that hangs, the kernel cannot end a process yet.
_KILL_AGAIN_S = 5.0


class Process:
    """A task's process.

    Args:
        child: Child process to supervise, as `spawn` returns it.
        started: Start time by the monotonic clock, in seconds.

    Attributes:
        child: Child process that is supervised.
        started: Start time by the monotonic clock, in seconds.
        stopped_for: Reason why it was asked to end, in words; empty while it was not.
        kill_at: Time by the monotonic clock at which it is killed if it still runs; None without.
        kill_command: Command that ends its container, which does not end with its client.
        memory_group: Control group that limits its memory; None without one.
        start_error: Reason why its program could not be started, set by `finish`.
        is_over_memory: Whether it was ended for its memory; final once `finish` has returned.
    """

    def __init__(self, child: Child, started: float) -> None:
        self.child = child
        self.started = started
        self.stopped_for = ""
        self.kill_at: float | None = None
        self.kill_command: Sequence[str] = ()
        self.memory_group: MemoryGroup | None = None
        self.start_error = ""
        self.is_over_memory = False
        self._launch_errors: int | None = None
        self._killer: subprocess.Popen[bytes] | None = None

    @property
    def pidfd(self) -> int:
        """A descriptor that becomes readable when the session's leader ends."""
        return self.child.pidfd

    def times_to_look(self, timeout_s: float | None) -> list[float]:
        """Return the next times to call `enforce` for a time limit, by the monotonic clock."""
        times = [] if self.kill_at is None else [self.kill_at]
        if timeout_s is not None and not self.stopped_for:
            times.append(self.started + timeout_s)
        return times

    def enforce(
        self, now: float, timeout_s: float | None, limit_bytes: int | None, grace_s: float
    ) -> None:
        """Ask the process to end where it exceeds a limit, and kill it after the grace period.

        Args:
            now: Current time by the monotonic clock, in seconds.
            timeout_s: Time limit in seconds; None for no limit.
            limit_bytes: Memory limit in bytes; None for no limit.
            grace_s: Seconds from SIGTERM to SIGKILL at the time limit; 0 at the memory limit.
        """
        if timeout_s is not None and now >= self.started + timeout_s:
            self.ask_to_end(f"its time limit of {timeout_s:g} s", grace_s)
        if limit_bytes is not None and not self.stopped_for:
            if self.memory_group is not None:
                if words := self._exceeded(limit_bytes):
                    self._end_for_memory(words)
            elif (held := self.memory_bytes()) > limit_bytes:
                words = f"{held / 2**20:.0f} of {limit_bytes / 2**20:.0f} MiB"
                self._end_for_memory(f"it took {words} of memory")
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = now + _KILL_AGAIN_S
            self.kill()

    def _end_for_memory(self, words: str) -> None:
        self.ask_to_end(words, 0.0)
        self.is_over_memory = self.stopped_for == words

    def _exceeded(self, limit_bytes: int) -> str:
        """Return in words that the kernel has killed for memory; empty where it has not."""
        if self.memory_group is None or not self.memory_group.was_exceeded():
            return ""
        return f"it took more than {limit_bytes / 2**20:.0f} MiB of memory"

    def memory_bytes(self) -> int:
        """Return the resident memory of the process and its descendants, in bytes.

        Pages that several processes share count for each.
        """
        leader = self.child.popen.pid
        return sum(resident_bytes(pid) for pid in (leader, *descendants(leader)))

    def ask_to_end(self, reason: str, grace_s: float, *, is_told: bool = False) -> None:
        """Send SIGTERM to the whole session, once; do nothing where the process has ended.

        Args:
            reason: Reason why the process has to end, in words.
            grace_s: Seconds from this call to SIGKILL.
            is_told: Whether another process has already sent SIGTERM; no second one is sent.
        """
        if not self.stopped_for and not self.has_ended():
            self.stopped_for = reason
            self.kill_at = time.monotonic() + grace_s
            if not is_told:
                self.child.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the whole session and to descendants that left it, without waiting.

        A container is ended by `kill_command` first, and its client only by a later call.
        """
        if self.kill_command and (self._killer is None or self._killer.poll() is not None):
            is_first = self._killer is None
            with contextlib.suppress(OSError):
                self._killer = subprocess.Popen(
                    self.kill_command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            if is_first and self._killer is not None:
                # The client ends after its container, which shows that the container has ended.
                return
        with open_handles(lambda: descendants(self.child.popen.pid)) as children:
            self.child.signal(signal.SIGKILL)
            for child in children:
                child.send(signal.SIGKILL)
        if self.memory_group is not None:
            self.memory_group.kill()

    def has_ended(self) -> bool:
        """Return whether the session's leader has ended; it is not reaped yet."""
        return self.child.has_ended()

    def finish(self, limit_bytes: int | None = None) -> int:
        """Kill the rest of the session, clean up, and return the exit code.

        Args:
            limit_bytes: Memory limit in bytes; it becomes the reason of the end if the kernel
                enforced it. Default: none.
        """
        if limit_bytes is not None and not self.stopped_for:
            self.stopped_for = self._exceeded(limit_bytes)
            self.is_over_memory = bool(self.stopped_for)
        code = self.child.finish()
        if self._killer is not None:
            self._killer.kill()
            self._killer.wait()
        if self._launch_errors is not None:
            number = os.read(self._launch_errors, 16)
            self.start_error = os.strerror(int(number)) if number else ""
            os.close(self._launch_errors)
        if self.memory_group is not None:
            self.memory_group.kill()
            self.memory_group.remove()
        return code


def start(
    command: Sequence[str],
    *,
    directory: Path,
    environment: Mapping[str, str],
    stdout: Path,
    stderr: Path,
    kill_command: Sequence[str] = (),
    memory_group: MemoryGroup | None = None,
) -> Process:
    """Start a task's program in a session of its own.

    Raises:
        OSError: The program cannot be started.
    """
    with contextlib.ExitStack() as opened:
        inherited: tuple[int, ...] = ()
        errors: int | None = None
        before = None
        if memory_group is not None and _has_one_thread():
            before = memory_group.join
        elif memory_group is not None:
            errors, written = os.pipe()
            opened.callback(os.close, written)
            inherited = (written,)
            group = str(memory_group.path)
            command = (*_alone("launcher"), group, str(written), *command)
        try:
            process = watch(
                spawn(
                    command,
                    directory=directory,
                    environment=environment,
                    stdout=opened.enter_context(_opened(stdout)),
                    stderr=opened.enter_context(_opened(stderr)),
                    pass_fds=inherited,
                    before=before,
                )
            )
        except (OSError, ValueError):
            if errors is not None:
                os.close(errors)
            raise
    process.kill_command = kill_command
    process.memory_group = memory_group
    process._launch_errors = errors
    return process


def _has_one_thread() -> bool:
    """Return whether this process has one thread, so that a fork may run Python code; fork(2)."""
    return sum(1 for _ in os.scandir("/proc/self/task")) == 1


def watch(child: Child) -> Process:
    """Return a supervised process, whose time limit counts from now."""
    return Process(child, time.monotonic())


def _alone(module: str) -> tuple[str, ...]:
    """Return the command that runs a standalone module of this package, which starts fast."""
    file = Path(__file__).with_name(f"{module}.py")
    isolated = (sys.executable, "-I", "-S")
    if file.exists():
        return (*isolated, str(file))
    # This package is in an archive, as on a cluster's node.
    archive = next(parent for parent in file.parents if parent.is_file())
    inside = file.relative_to(archive).with_suffix("")
    return (*isolated, "-c", _FROM_ARCHIVE, str(archive), str(inside))


def _opened(path: Path) -> IO[bytes]:
    # A second attempt appends to the output of the first.
    return path.open("ab")


@contextlib.contextmanager
def guarded(
    mark: str,
    engines: Sequence[str] = (),
    groups: Path | None = None,
    *,
    variable: str = MARK,
) -> Iterator[None]:
    """End all processes and containers with a mark after the block, even if this process is killed.

    Args:
        mark: Value of the variable in the processes' environments, and of the containers' label.
        engines: Programs of the container engines that this process uses.
        groups: Directory in which this process makes control groups; None without one.
        variable: Name of the environment variable with the mark.
    """
    watcher = subprocess.Popen(
        [*_alone("guardian"), f"{variable}={mark}", str(groups or ""), *engines],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert watcher.stdin is not None
        watcher.stdin.close()
        watcher.wait()


@contextlib.contextmanager
def guarded_by_fork(mark: str, groups: Path | None = None) -> Iterator[None]:
    """Do the same as `guarded` in a fork of this process, which needs no start of Python.

    Call it only while this process has one thread and has changed no signal's handler.

    Args:
        mark: Value of the variable `MARK` in the processes' environments.
        groups: Directory in which this process makes control groups; None without one.
    """
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            os.dup2(reads, 0)
            os.closerange(3, max(reads, writes) + 1)
            guardian.watch(f"{MARK}={mark}", str(groups or ""), [])
        finally:
            os._exit(0)
    os.close(reads)
    try:
        yield
    finally:
        os.close(writes)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

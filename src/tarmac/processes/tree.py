"""A task's process: its limits on time and memory, and its end with all that it started."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import psutil

from tarmac.processes.children import spawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.processes.cgroup import MemoryGroup
    from tarmac.processes.children import Child

__all__ = ["MARK", "Process", "guarded", "start", "watch"]

MARK = "TARMAC_RUN"

_GUARDIAN = Path(__file__).with_name("guardian.py")
_LAUNCHER = Path(__file__).with_name("launcher.py")

# A process that the kernel cannot end yet, on a device that hangs, is not asked more often.
_KILL_AGAIN_S = 5.0


@dataclasses.dataclass
class Process:
    """A task's process.

    Attributes:
        child: The process itself.
        started: By the monotonic clock.
        stopped_for: Why it was asked to end, in words; empty while it was not.
        kill_at: When it is killed if it still runs, by the monotonic clock.
        kill_command: What ends a container, which does not end with its client.
        memory_group: In which the kernel limits its memory, where it may.
        start_error: Why its program could not be started, once `finish` has returned.
    """

    child: Child
    started: float
    stopped_for: str = ""
    kill_at: float | None = None
    kill_command: Sequence[str] = ()
    memory_group: MemoryGroup | None = None
    start_error: str = ""
    _launch_errors: int | None = None
    _killer: subprocess.Popen[bytes] | None = None

    @property
    def pidfd(self) -> int:
        """A descriptor that becomes readable when its leader ends."""
        return self.child.pidfd

    def times_to_look(self, timeout_s: float | None) -> list[float]:
        """Return when it may go beyond its time, by the monotonic clock."""
        times = [] if self.kill_at is None else [self.kill_at]
        if timeout_s is not None and not self.stopped_for:
            times.append(self.started + timeout_s)
        return times

    def enforce(
        self, now: float, timeout_s: float | None, limit_bytes: int | None, grace_s: float
    ) -> None:
        """Ask it to end where it took too long or too much, and kill it once patience ends."""
        if timeout_s is not None and now >= self.started + timeout_s:
            self.ask_to_end(f"its time limit of {timeout_s:g} s", grace_s)
        if limit_bytes is not None and not self.stopped_for:
            if self.memory_group is not None:
                if words := self._exceeded(limit_bytes):
                    self.ask_to_end(words, 0.0)
            elif (held := self.memory_bytes()) > limit_bytes:
                words = f"{held / 2**20:.0f} of {limit_bytes / 2**20:.0f} MiB"
                self.ask_to_end(f"it took {words} of memory", 0.0)
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = now + _KILL_AGAIN_S
            self.kill()

    def _exceeded(self, limit_bytes: int) -> str:
        """Return that the kernel has ended a part of it for its memory; empty where it has not."""
        if self.memory_group is None or not self.memory_group.was_exceeded():
            return ""
        return f"it took more than {limit_bytes / 2**20:.0f} MiB of memory"

    def memory_bytes(self) -> int:
        """Return what it and its children hold together, shared pages counted once where known."""
        total = 0
        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(self.child.popen.pid)
            for process in (leader, *leader.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
        return total

    def ask_to_end(self, reason: str, grace_s: float) -> None:
        """Send SIGTERM to the whole session, once; one that has ended already is left its end."""
        if not self.stopped_for and not self.has_ended():
            self.stopped_for = reason
            self.kill_at = time.monotonic() + grace_s
            self.child.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the whole session, and to children that left it; wait for nothing."""
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
                # The client ends when its container has, and so tells that it has.
                return
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(self.child.popen.pid).children(recursive=True)
        self.child.signal(signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        if self.memory_group is not None:
            self.memory_group.kill()

    def has_ended(self) -> bool:
        """Whether its leader has ended; it is not waited for yet."""
        return self.child.has_ended()

    def finish(self, limit_bytes: int | None = None) -> int:
        """Return the exit code, once it has ended; children that are left are killed.

        Args:
            limit_bytes: Of its memory, which may be why it ended.
        """
        if limit_bytes is not None and not self.stopped_for:
            self.stopped_for = self._exceeded(limit_bytes)
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
        OSError: It cannot be started.
    """
    with contextlib.ExitStack() as opened:
        inherited: tuple[int, ...] = ()
        errors: int | None = None
        if memory_group is not None:
            errors, written = os.pipe()
            opened.callback(os.close, written)
            inherited = (written,)
            group = str(memory_group.path)
            command = (*_alone(_LAUNCHER), group, str(written), *command)
        try:
            process = watch(
                spawn(
                    command,
                    directory=directory,
                    environment=environment,
                    stdout=opened.enter_context(_opened(stdout)),
                    stderr=opened.enter_context(_opened(stderr)),
                    pass_fds=inherited,
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


def watch(child: Child) -> Process:
    """Return a process under supervision, whose time counts from now."""
    return Process(child, time.monotonic())


def _alone(program: Path) -> tuple[str, ...]:
    """Return what runs a file that needs nothing but Python, which so starts at once."""
    return (sys.executable, "-I", "-S", str(program))


def _opened(path: Path) -> IO[bytes]:
    # A second attempt adds to what the first one said.
    return path.open("ab")


@contextlib.contextmanager
def guarded(mark: str, engines: Sequence[str] = (), groups: Path | None = None) -> Iterator[None]:
    """Have all processes and containers with a mark ended, should this process not do so.

    Args:
        mark: The value of the variable `MARK` in their environments, and of containers' label.
        engines: Programs of the container engines that it uses.
        groups: The directory in which it makes control groups, where it may.
    """
    guardian = subprocess.Popen(
        [*_alone(_GUARDIAN), f"{MARK}={mark}", str(groups or ""), *engines],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert guardian.stdin is not None
        guardian.stdin.close()
        guardian.wait()

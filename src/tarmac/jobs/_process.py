"""A task's process, with all that it starts."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.jobs._cgroup import MemoryGroup

__all__ = ["MARK", "Process", "guarded", "start"]

MARK = "TARMAC_RUN"

_GUARDIAN = Path(__file__).with_name("guardian.py")


@dataclasses.dataclass
class Process:
    """A task's process.

    Attributes:
        popen: The leader of its session.
        pidfd: Becomes readable when it ends.
        started: By the monotonic clock.
        stopped_for: Why it was asked to end, in words; empty while it was not.
        kill_at: When patience ends.
        kill_command: What ends a container, which does not end with its client.
        memory_group: In which the kernel limits its memory, where it may.
    """

    popen: subprocess.Popen[bytes]
    pidfd: int
    started: float
    stopped_for: str = ""
    kill_at: float | None = None
    kill_command: Sequence[str] = ()
    memory_group: MemoryGroup | None = None

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
        if timeout_s is not None and now - self.started > timeout_s:
            self.ask_to_end(f"its time limit of {timeout_s:g} s", grace_s)
        if limit_bytes is not None and not self.stopped_for:
            if self.memory_group is not None:
                self._note_exceeded(limit_bytes)
            elif (held := self.memory_bytes()) > limit_bytes:
                words = f"{held / 2**20:.0f} of {limit_bytes / 2**20:.0f} MiB"
                self.ask_to_end(f"it took {words} of memory", 0.0)
        if self.kill_at is not None and now >= self.kill_at:
            self.kill()

    def _note_exceeded(self, limit_bytes: int) -> None:
        if self.memory_group is not None and self.memory_group.was_exceeded():
            self.ask_to_end(f"it took more than {limit_bytes / 2**20:.0f} MiB of memory", 0.0)

    def memory_bytes(self) -> int:
        """Return what it and its children hold together, shared pages counted once where known."""
        total = 0
        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(self.popen.pid)
            for process in (leader, *leader.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
        return total

    def ask_to_end(self, reason: str, grace_s: float) -> None:
        """Send SIGTERM to the whole session, once."""
        if not self.stopped_for:
            self.stopped_for = reason
            self.kill_at = time.monotonic() + grace_s
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the whole session, and to children that left it."""
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(self.popen.pid).children(recursive=True)
        if self.kill_command:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(self.kill_command, capture_output=True, timeout=30, check=False)
        self._signal(signal.SIGKILL)
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        if self.memory_group is not None:
            self.memory_group.kill()

    def finish(self, limit_bytes: int | None = None) -> int:
        """Return the exit code, once it has ended; children that are left are killed.

        Args:
            limit_bytes: Of its memory, which may be why it ended.
        """
        code = self.popen.wait()
        if limit_bytes is not None and not self.stopped_for:
            self._note_exceeded(limit_bytes)
        self._signal(signal.SIGKILL)
        if self.memory_group is not None:
            self.memory_group.kill()
            self.memory_group.remove()
        os.close(self.pidfd)
        return code

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, number)


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
    with _opened(stdout) as out, _opened(stderr) as err:
        popen = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    if memory_group is not None:
        memory_group.add(popen.pid)
    return Process(
        popen,
        os.pidfd_open(popen.pid),
        time.monotonic(),
        kill_command=kill_command,
        memory_group=memory_group,
    )


def _opened(path: Path) -> IO[bytes]:
    # A second attempt adds to what the first one said.
    return path.open("ab")


@contextlib.contextmanager
def guarded(mark: str, engines: Sequence[str] = ()) -> Iterator[None]:
    """Have all processes and containers with a mark ended, should this process not do so.

    Args:
        mark: Of the run.
        engines: Programs of the container engines that it uses.
    """
    guardian = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARDIAN), mark, *engines],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        assert guardian.stdin is not None
        guardian.stdin.close()
        guardian.wait()

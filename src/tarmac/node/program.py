"""One program on this node: start with limits, supervision and end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tarmac.processes import Process, make_memory_group, start

if TYPE_CHECKING:
    from tarmac.node.inbox import Inbox

# Intervals of the checks for a suspension and for the memory limit.
_TICK_S = 1.0
_LOOK_EVERY_S = 0.5
# A tick that is longer by this means that the engine suspended all processes: a busy machine delays
# it less.
_SUSPENDED_S = 5.0

# A disk with less free space cannot take a program's final messages.
_FULL_BYTES = 2**16


class Ending(NamedTuple):
    """The ending of an attempt, as in its record.

    Attributes:
        outcome: Outcome of the attempt: ``succeeded``, ``failed`` or ``interrupted``.
        cause: Cause of a failure or interruption; see `tarmac.node.records`.
        reason: Explanation of the cause in words.
        exit_code: Exit code of the program, negative for a signal. None: not started.
        seconds: Seconds that the program ran. 0: not started.
        problems: Problems with the outputs, a line each.
        bad_host: Name of the node whose GPUs are unfit. Empty: none.
        notes: Further findings about the attempt, a line each.
    """

    outcome: str
    cause: str = ""
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    bad_host: str = ""
    notes: tuple[str, ...] = ()


class Program(NamedTuple):
    """A program to run.

    Attributes:
        name: Name of the program, for messages.
        command: The program and its arguments.
        directory: Working directory of the program.
        environment: Complete environment of the program.
        stdout: File that the program's standard output is appended to.
        stderr: File that the program's standard error is appended to.
        group: Name of a control group for the program, unique on this machine.
        kill_command: Command that ends the program's container.
        timeout_s: Time limit in seconds, without suspended time. None: no limit.
        memory_bytes: Memory limit in bytes. None: no limit, or the container has one.
        grace_s: Seconds between SIGTERM and SIGKILL. Default 10.
    """

    name: str
    command: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    stdout: Path
    stderr: Path
    group: str
    kill_command: Sequence[str] = ()
    timeout_s: float | None = None
    memory_bytes: int | None = None
    grace_s: float = 10.0


def run_program(program: Program, inbox: Inbox, lasts: Callable[[], None]) -> Ending:
    """Run a program to its end.

    Args:
        program: Program to run, with its environment and limits.
        inbox: Inbox whose requests end the program.
        lasts: Function that is called repeatedly while the program runs, after the first wait.
    """
    group = None
    if program.memory_bytes is not None:
        group = make_memory_group(program.group, program.memory_bytes)
    try:
        process = start(
            program.command,
            directory=program.directory,
            environment=program.environment,
            stdout=program.stdout,
            stderr=program.stderr,
            kill_command=program.kill_command,
            memory_group=group,
        )
    except (OSError, ValueError) as error:
        if group is not None:
            group.remove()
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Ending("failed", "start", f"{program.name}: {words}")
    code, seconds = supervise(
        process,
        inbox,
        lasts,
        timeout_s=program.timeout_s,
        memory_bytes=program.memory_bytes,
        grace_s=program.grace_s,
    )
    return _judge(program, process, code, seconds, inbox)


def supervise(
    process: Process,
    inbox: Inbox,
    lasts: Callable[[], None] = lambda: None,
    *,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    grace_s: float = 10.0,
) -> tuple[int, float]:
    """Supervise a process within its limits; return its exit code and its run time in seconds.

    Args:
        process: Process to supervise. Its `stopped_for` has the reason if it was ended.
        inbox: Inbox whose requests end the process.
        lasts: Function that is called repeatedly while the process runs, after the first wait.
        timeout_s: Time limit in seconds, without suspended time. Default: none.
        memory_bytes: Memory limit of the process in bytes. Default: none.
        grace_s: Seconds between SIGTERM and SIGKILL. Default 10.
    """
    # The engine may have suspended the process between its start and this point.
    before = process.started
    look_at = 0.0
    is_first = True
    while not process.has_ended():
        if not is_first:
            lasts()
        is_first = False
        now = time.monotonic()
        if now - before > _TICK_S + _SUSPENDED_S:
            _shift(process, now - before - _TICK_S)
        before = now
        if inbox.request is not None:
            process.ask_to_end(inbox.request.reason, grace_s, is_told=inbox.request.is_told)
        limit_bytes = None
        if memory_bytes is not None and now >= look_at:
            limit_bytes, look_at = memory_bytes, now + _LOOK_EVERY_S
        process.enforce(now, timeout_s, limit_bytes, grace_s)
        times = [now + _TICK_S, *process.times_to_look(timeout_s)]
        if memory_bytes is not None:
            times.append(look_at)
        inbox.wait(min(times) - now, process.pidfd)
    seconds = time.monotonic() - process.started
    code = process.finish(memory_bytes)
    if not process.stopped_for:
        inbox.hear_late(has_failed=code != 0)
    return code, seconds


def _shift(process: Process, seconds: float) -> None:
    """Extend a process's deadlines by the seconds of a suspension."""
    process.started += seconds
    if process.kill_at is not None:
        process.kill_at += seconds


def _judge(program: Program, process: Process, code: int, seconds: float, inbox: Inbox) -> Ending:
    """Return the ending of an attempt after its program has ended."""
    if process.start_error:
        return Ending("failed", "start", f"{program.name}: {process.start_error}")
    if process.is_over_memory:
        return Ending("failed", "memory", process.stopped_for, code, seconds)
    if process.stopped_for and (
        inbox.request is None or process.stopped_for != inbox.request.reason
    ):
        return Ending("failed", "timeout", process.stopped_for, code, seconds)
    # A program that exits with 0 before the request has succeeded, unless the engine signalled it.
    if inbox.request is not None and (process.stopped_for or code or inbox.request.is_told):
        return Ending("interrupted", inbox.request.cause, inbox.request.reason, code, seconds)
    if code == 0:
        return Ending("succeeded", exit_code=0, seconds=seconds)
    reason = f"exit code {code}" if code > 0 else f"signal {-code}"
    # The full disk may have lost the program's own error message too.
    if _is_full(program.stdout.parent):
        reason += ", and no space is left on its disk"
    return Ending("failed", "exit" if code > 0 else "signal", reason, code, seconds)


def _is_full(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        disk = os.statvfs(directory)
        return disk.f_bavail * disk.f_frsize < _FULL_BYTES
    return False

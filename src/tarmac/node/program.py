"""One program on this node: started within its limits, watched, and ended when it is to end."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from tarmac.processes import make_memory_group, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tarmac.node.inbox import Inbox
    from tarmac.processes import Process

# How often it is seen whether all of this was suspended meanwhile, and memory is looked at.
_TICK_S = 1.0
_LOOK_EVERY_S = 0.5
# A tick that takes so much longer was no busy machine: the engine had stopped all processes.
_SUSPENDED_S = 5.0

# A disk with less than this cannot take what a program says at its end.
_FULL_BYTES = 2**16


class Ending(NamedTuple):
    """How an attempt ended, as its record holds it.

    Attributes:
        outcome: ``succeeded``, ``failed`` or ``interrupted``.
        cause: Why it did not succeed; see `tarmac.node.records`.
        reason: The same in words.
        exit_code: The program's; None where it was not started, negative for a signal.
        seconds: Seconds that the program ran; 0 where it was not started.
        problems: What went wrong with its outputs, a line each.
        bad_host: The node whose GPUs were found unfit; empty where none was.
        notes: What was found beside its work, a line each.
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
        environment: All of its variables.
        stdout: File that the program's standard output is appended to.
        stderr: File that the program's standard error is appended to.
        group: The name of a control group for it, unique on this machine.
        kill_command: What ends its container.
        timeout_s: Its time limit; time while all is suspended does not count.
        memory_bytes: Its memory limit; None where there is none, or a container has its own.
        grace_s: Between SIGTERM and SIGKILL.
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
        inbox: What is asked in it ends the program.
        lasts: Called, once and again, while it does not end at once.
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
    """Watch a process to its end within its limits; return its exit code and how long it ran.

    Args:
        process: Process to watch; its `stopped_for` holds the reason where it was ended.
        inbox: What is asked in it ends the process.
        lasts: Called, once and again, while it does not end at once.
        timeout_s: Time limit in seconds, without time while all is suspended. Default: none.
        memory_bytes: Memory limit of the process in bytes. Default: none.
        grace_s: Between SIGTERM and SIGKILL.
    """
    # Also from its start to here it may have been suspended.
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
        if inbox.asked is not None:
            process.ask_to_end(inbox.asked.reason, grace_s, is_told=inbox.asked.is_told)
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
    """Let a process have the time back in which it was suspended, with all others of its unit."""
    process.started += seconds
    if process.kill_at is not None:
        process.kill_at += seconds


def _judge(program: Program, process: Process, code: int, seconds: float, inbox: Inbox) -> Ending:
    """Return what the end of a program says of its attempt."""
    if process.start_error:
        return Ending("failed", "start", f"{program.name}: {process.start_error}")
    if process.is_over_memory:
        return Ending("failed", "memory", process.stopped_for, code, seconds)
    if process.stopped_for and (inbox.asked is None or process.stopped_for != inbox.asked.reason):
        return Ending("failed", "timeout", process.stopped_for, code, seconds)
    # What ended well before it was asked has succeeded, unless the engine signalled all of it.
    if inbox.asked is not None and (process.stopped_for or code or inbox.asked.is_told):
        return Ending("interrupted", inbox.asked.cause, inbox.asked.reason, code, seconds)
    if code == 0:
        return Ending("succeeded", exit_code=0, seconds=seconds)
    reason = f"exit code {code}" if code > 0 else f"signal {-code}"
    # Its own words on this may not have found room either.
    if _is_full(program.stdout.parent):
        reason += ", and no space is left on its disk"
    return Ending("failed", "exit" if code > 0 else "signal", reason, code, seconds)


def _is_full(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        disk = os.statvfs(directory)
        return disk.f_bavail * disk.f_frsize < _FULL_BYTES
    return False

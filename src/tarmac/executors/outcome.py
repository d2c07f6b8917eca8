"""The verdict on an attempt from the end of its program."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from pathlib import Path

from tarmac.executors.events import Cause
from tarmac.executors.interface import Attempt, Outcome
from tarmac.executors.launching import program_of
from tarmac.files import masked_end
from tarmac.processes import Process, last_line
from tarmac.tasks.model import Container

# A program cannot write its final output to a disk with less free space than this.
_FULL_BYTES = 2**16

# Exit codes for an error of the engine, a command that cannot be run, and one that is not found
# (https://docs.docker.com/engine/containers/run/#exit-status).
_ENGINE_CODES = (125, 126, 127)
_ENGINE_ERRORS = ("docker: ", "Error: ", "[FATAL tini ")
_LAST_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of an attempt before its outputs are kept.

    Attributes:
        outcome: Outcome of the attempt, such as ``failed``.
        reason: Reason for people; empty where the attempt succeeded.
        exit_code: Exit code of the program, negative for a signal; None where it was not started.
        cause: Kind of failure; None where the attempt succeeded.
    """

    outcome: Outcome
    reason: str = ""
    exit_code: int | None = None
    cause: Cause | None = None


def judge(process: Process, code: int, attempt: Attempt, *, is_asked: bool) -> Verdict:
    """Return how an attempt ended.

    Args:
        process: Process of the attempt, which has ended.
        code: Exit code of the process, negative for a signal.
        attempt: Attempt that the process belongs to.
        is_asked: Whether the executor has asked the process to end.
    """
    if process.start_error:
        reason = f"{program_of(attempt.task)}: {process.start_error}"
        return Verdict("failed", reason, None, "start")
    if process.stopped_for:
        if is_asked:
            return Verdict("interrupted", process.stopped_for, code, "stop")
        cause: Cause = "memory" if process.is_over_memory else "timeout"
        return Verdict("failed", process.stopped_for, code, cause)
    if code == 0:
        return Verdict("succeeded", "", 0)
    reason = f"exit code {code}" if code > 0 else f"signal {-code}"
    if isinstance(attempt.task.environment, Container) and code in _ENGINE_CODES:
        reason += _said_by_engine(attempt.directory / "stderr")
    # The program's own message about the full disk may not have found room either.
    if _is_full(attempt.directory):
        reason += ", and no space is left on its disk"
    return Verdict("failed", reason, code, "exit" if code > 0 else "signal")


def _said_by_engine(stderr: Path) -> str:
    """Return why an engine could not start a container; empty where the program itself ended."""
    with contextlib.suppress(OSError):
        lines = masked_end(stderr, _LAST_BYTES)[0].splitlines()
        errors = [line for line in lines if line.startswith(_ENGINE_ERRORS)]
        return f": {last_line(errors[-1])}" if errors else ""
    return ""


def _is_full(directory: Path) -> bool:
    # A task may have removed its directory, which says nothing about the disk.
    with contextlib.suppress(OSError):
        return shutil.disk_usage(directory).free < _FULL_BYTES
    return False

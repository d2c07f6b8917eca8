"""What the end of a program says of its attempt."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

from tarmac.jobs.executors.launching import program_of

if TYPE_CHECKING:
    from pathlib import Path

    from tarmac.jobs.executors.interface import Attempt, Outcome
    from tarmac.processes import Process

__all__ = ["judge"]

# A disk with less than this cannot take what a program says at its end.
_FULL_BYTES = 2**16


def judge(
    process: Process, code: int, attempt: Attempt, *, is_stopping: bool
) -> tuple[Outcome, str, int | None]:
    """Return how an attempt ended, why where it did not succeed, and its exit code.

    Args:
        process: Has ended.
        code: With which it ended, negative for a signal.
        attempt: Which it was.
        is_stopping: Whether all attempts have been asked to end.
    """
    if process.start_error:
        return "failed", f"{program_of(attempt.task)}: {process.start_error}", None
    if process.stopped_for:
        return ("interrupted" if is_stopping else "failed"), process.stopped_for, code
    if code == 0:
        return "succeeded", "", 0
    reason = f"exit code {code}" if code > 0 else f"signal {-code}"
    # Its own words on this may not have found room either.
    if _is_full(attempt.directory):
        reason += ", and no space is left on its disk"
    return "failed", reason, code


def _is_full(directory: Path) -> bool:
    # A task may have taken its directory away, which says nothing of the disk.
    with contextlib.suppress(OSError):
        return shutil.disk_usage(directory).free < _FULL_BYTES
    return False

"""A stage's process: started in a session of its own, ended with all that it started."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Ends all processes whose environment has a mark, once its standard input ends: also when this
# process was killed, and also what has left the stage's session. It stands alone.
_GUARDIAN = Path(__file__).parents[2] / "src" / "tarmac" / "processes" / "guardian.py"
_MARK = "TARMAC_GPU_STAGE"
# How long the kernel may take to end what was killed. What hangs in a driver cannot be ended.
_PATIENCE_S = 15.0


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: Its exit code; None where it was over its limit.
        is_gone: Whether all of it has ended; False where the kernel could not end it.
    """

    code: int | None
    is_gone: bool


def run_limited(
    command: Sequence[str],
    *,
    limit_s: float,
    directory: Path,
    environment: Mapping[str, str],
    output: Path,
) -> Ended:
    """Run a program until its end or its limit, then end all that it has started.

    Args:
        command: The program.
        limit_s: After which it is killed.
        directory: Where it runs.
        environment: All of its variables.
        output: The file that gets what it prints.
    """
    mark = f"{_MARK}={secrets.token_hex(8)}"
    guardian = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARDIAN), mark, ""],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert guardian.stdin is not None
    name, _, value = mark.partition("=")
    code, process = None, None
    try:
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**environment, name: value},
                start_new_session=True,
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(limit_s)
    finally:
        if process is not None:
            # The group first: it is one call, where the guardian has to look at every process.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        guardian.stdin.close()
        is_gone = all(_has_ended(child) for child in (process, guardian) if child is not None)
    return Ended(code, is_gone)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return False
    return True

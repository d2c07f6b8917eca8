"""The runner of a job's run: the record of its process, its lock, and the request to end it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.files import (
    Shape,
    is_held,
    lease_file,
    parse_json,
    read_errors,
    read_regular,
    storage_errors,
    write_json,
)
from tarmac.processes import ProcessIdentity, identify

RUNNER = "runner.json"

# Held by the process that works on the run.
LOCK = ".lock"

# A request to end for a runner on another machine, which no signal reaches.
_REQUEST = "cancel.json"

_PROCESS = Shape(
    {"pid": "whole number", "start_ticks": "whole number", "boot_id": "text", "host": "text"}
)

# Clocks of hosts and file servers differ by less than this.
_LONG_SILENT_S = 600.0


def note_runner(run: Path, pid: int) -> None:
    """Record the process of a run's runner.

    Args:
        run: Directory of the run, where the record is written.
        pid: Process id of the runner, on this machine.
    """
    # A process that has already ended is no runner.
    with contextlib.suppress(ProcessLookupError):
        write_json(run / RUNNER, identify(pid)._asdict())


def forget_runner(run: Path) -> None:
    """Delete the record of a run's runner."""
    with storage_errors(run):
        (run / RUNNER).unlink(missing_ok=True)
        # The request to end was meant for this runner.
        (run / _REQUEST).unlink(missing_ok=True)


def ask_to_end(run: Path, runner: ProcessIdentity) -> None:
    """Write the file that asks a run's runner to end all its tasks.

    Args:
        run: Directory of the run, in which the runner looks for the file.
        runner: Process of the runner; a later runner ignores the request.

    Raises:
        StorageError: This user may not write the request.
    """
    write_json(run / _REQUEST, {"runner": runner._asdict()})


def is_asked_to_end(run: Path, runner: ProcessIdentity) -> bool:
    """Whether `ask_to_end` was called for a runner."""
    try:
        # Opening the directory makes network file systems ask their server.
        os.close(os.open(run, os.O_RDONLY))
        request = parse_json(read_regular(run / _REQUEST))
        return ProcessIdentity(**request["runner"]) == runner
    except (OSError, ValueError, TypeError, KeyError):
        return False


def read_runner(run: Path) -> ProcessIdentity | None:
    """Return the process of a run's runner on this machine; None where none is alive.

    Raises:
        StorageError: The runner's record cannot be read.
        TarmacError: The runner's record is damaged.
    """
    noted = read_runner_note(run)
    return noted if noted is not None and noted.is_alive() else None


def read_runner_note(run: Path) -> ProcessIdentity | None:
    """Return the last recorded process of a run's runner, alive or not, on any machine.

    Raises:
        StorageError: A process holds the run's lock, and the record cannot be read.
        TarmacError: A process holds the run's lock, and the record is damaged.
    """
    path = run / RUNNER
    try:
        with read_errors(path):
            return ProcessIdentity(**_PROCESS.checked(parse_json(read_regular(path))))
    except (ValueError, TypeError, TarmacError) as error:
        # A runner deletes its record at its end, perhaps since the read above. A leftover record is
        # ignored.
        if not path.exists() or not is_held(run / LOCK):
            return None
        if isinstance(error, TarmacError):
            raise
        raise TarmacError(f"{path} is damaged: {error}") from error


def silent_s(run: Path) -> float | None:
    """Return the age of the last heartbeat of a run's runner in seconds; None without a lease."""
    for path in (lease_file(run / LOCK), run / LOCK):
        with contextlib.suppress(OSError):
            written = path.stat()
            if written.st_size:
                return max(0.0, time.time() - written.st_mtime)
    return None


def is_long_silent(run: Path) -> bool:
    """Whether a run's runner on another machine has shown no heartbeat for ten minutes."""
    return (silent_s(run) or 0.0) > _LONG_SILENT_S

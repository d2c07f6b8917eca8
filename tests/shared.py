"""What all workers of one run of pytest share: a directory, and what the first of them makes in it.

`conftest.py` calls `begin` in the process that starts the workers. The directory is removed when
that process ends.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

# Names the directory for the workers.
VARIABLE = "TARMAC_TESTS_SHARED"
_ALIVE = "alive"


def begin() -> None:
    """Make the directory of this process and of the workers that it will start."""
    path = Path(tempfile.mkdtemp(prefix="tarmac-tests-"))
    os.environ[VARIABLE] = str(path)
    os.mkfifo(path / _ALIVE)
    writer = os.open(path / _ALIVE, os.O_RDWR)

    def end() -> None:
        os.close(writer)
        shutil.rmtree(path, ignore_errors=True)

    atexit.register(end)


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return a directory that `make` fills for the first worker that asks for it.

    Args:
        name: The directory's, which no other use may have.
        make: Takes the empty directory. If it fails, the next call tries it again.
    """
    path = _directory() / name
    done = path.with_name(f"{name}.done")
    with path.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            make(path)
            done.touch()
    return path


def lifeline() -> int:
    """Return a new descriptor, at its end once the process that began the run has ended."""
    return os.open(_directory() / _ALIVE, os.O_RDONLY | os.O_NONBLOCK)


def _directory() -> Path:
    if VARIABLE not in os.environ:
        begin()
    return Path(os.environ[VARIABLE])

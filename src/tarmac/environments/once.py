"""Make a file on one host, while other hosts that need it wait."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from tarmac.errors import TarmacError
from tarmac.files import Lease, refuse_foreign_build, storage_errors, write_text

_LOOK_EVERY_S = 2.0


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Return a file on a shared file system that one process makes, while others wait.

    If that process fails, the waiting processes fail with the same message, instead of retrying one
    after another. Later calls retry.

    Args:
        path: File to make, in a directory on a file system that all hosts share.
        make: Function that writes the file at the given path. Only one process at a time calls it.

    Raises:
        RequestError: Another user has made the file, or owns its directory.
        StorageError: The directory cannot be written to.
        TarmacError: The file could not be made, by this process or by the one that it waited for.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    refuse_foreign_build(path, what="what is in it")
    failure = path.with_name(f"{path.name}.failed")
    earlier = _read(failure)
    while not path.exists():
        lease = Lease(path.with_name(f"{path.name}.lease"))
        if not lease.acquire():
            time.sleep(_LOOK_EVERY_S)
            continue
        try:
            report = _read(failure)
            if report is not None and report != earlier:
                message, _, hint = report.partition("\n")[2].partition("\n")
                raise TarmacError(message, hint=hint or None)
            if not path.exists():
                _make(path, make, failure)
        finally:
            lease.release()
    refuse_foreign_build(path, what="what is in it")
    return path


def _make(path: Path, make: Callable[[Path], None], failure: Path) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        make(part)
        part.replace(path)
    except TarmacError as error:
        # The first line distinguishes this failure from an earlier one with the same message.
        words = "\n".join(filter(None, (error.message, error.hint)))
        write_text(failure, f"{time.time_ns()}\n{words}")
        raise
    finally:
        part.unlink(missing_ok=True)
    failure.unlink(missing_ok=True)


def _read(path: Path) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text(encoding="utf-8")
    return None

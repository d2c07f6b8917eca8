"""Fences: files that keep an attempt from starting or continuing once it is given up."""

from __future__ import annotations

import os

from tarmac.executors.attempt import Attempt
from tarmac.files import storage_errors
from tarmac.node import AttemptRecord, attempt_file, fence_file


def fence_unbegun(attempt: Attempt, nonce: str) -> bool:
    """Claim an attempt so that no agent can start it; return False where an agent has claimed it.

    Raises:
        StorageError: The attempt's directory cannot be written.
    """
    path = attempt_file(attempt.directory, attempt.number)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        part.write_bytes(AttemptRecord(nonce=nonce, state="fenced").to_bytes())
        try:
            # Unlike a rename, this fails where the name is taken, also on network file systems.
            path.hardlink_to(part)
        except FileExistsError:
            return False
        finally:
            part.unlink()
    return True


def fence_at_work(attempt: Attempt, reason: str) -> None:
    """Make an attempt's agent end the attempt at its next heartbeat, if it is running.

    Raises:
        StorageError: The attempt's directory cannot be written.
    """
    path = fence_file(attempt.directory, attempt.number)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(reason, encoding="utf-8")

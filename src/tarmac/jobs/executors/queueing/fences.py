"""Keeps attempts from beginning or going on that nobody waits for any more."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tarmac.files import storage_errors
from tarmac.node import AttemptRecord, attempt_file, fence_file

if TYPE_CHECKING:
    from tarmac.jobs.executors.attempt import Attempt


def fence_unbegun(attempt: Attempt, nonce: str) -> bool:
    """Claim an attempt so that no agent can, and return whether none had.

    Raises:
        StorageError: Its directory cannot be written.
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
    """Have an attempt's agent end it at its next beat, should it be at work.

    Raises:
        StorageError: Its directory cannot be written.
    """
    path = fence_file(attempt.directory, attempt.number)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(reason, encoding="utf-8")

"""Record the processes that use an environment, so that it is not removed while in use."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import psutil

from tarmac.files import parse_json, write_json
from tarmac.processes import ProcessIdentity, identify


def note_user(path: Path) -> None:
    """Record that this process uses an environment; remove the records of ended processes."""
    _noted_users(path)
    me = identify(os.getpid())
    write_json(_users(path) / f"{me.host}-{me.pid}-{me.start_ticks}.json", me._asdict())


def living_users(path: Path) -> list[str]:
    """Return the processes that use an environment; remove the records of ended processes.

    Processes on other machines cannot be checked, so they count as running.
    """
    living = _noted_users(path)
    # A task can outlive the process that built its environment and left the record.
    living.extend(
        f"process {process.info['pid']}"
        for process in psutil.process_iter(["pid", "environ"])
        if str(path) in map((process.info["environ"] or {}).get, ("VIRTUAL_ENV", "CONDA_PREFIX"))
    )
    return [*dict.fromkeys(living)]


def _noted_users(path: Path) -> list[str]:
    living: list[str] = []
    here = socket.gethostname()
    for note in sorted(_users(path).glob("*.json")):
        try:
            user = ProcessIdentity(**parse_json(note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue
        if user.host != here:
            living.append(f"process {user.pid} on {user.host} (if that has ended, remove {note})")
        elif user.is_alive():
            living.append(f"process {user.pid}")
        else:
            note.unlink(missing_ok=True)
    return living


def forget_users(path: Path) -> None:
    """Remove the records of a removed environment's users."""
    shutil.rmtree(_users(path), ignore_errors=True)


def _users(path: Path) -> Path:
    """Return the directory with the records of an environment's users."""
    return path.with_name(f"{path.name}.users")

"""Leases of GPUs that processes of all users respect: locks, which end with their holder.

A run within a task of another finds its GPUs leased by the outer one, for this very task. The task
is told where those who share its GPUs lease them from each other instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import stat
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tarmac.errors import RequestError, quoted
from tarmac.files import lock_descriptor, unlock_descriptor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VARIABLE = "TARMAC_LEASES"

# Where all users may write, and what is there does not outlive the machine's start (FHS 3.0).
_LOCKS = Path("/run/lock")
_TEMPORARY = Path("/tmp")  # noqa: S108 - the same for everybody, as TMPDIR is not; see Leases


def default_leases(candidates: tuple[Path, ...] = (_LOCKS, _TEMPORARY)) -> Path:
    """Return the directory where all users' processes on this machine lease GPUs.

    It depends on the machine alone and not on who asks, so that all of them meet.

    Args:
        candidates: Directories; the first in which every user may write is taken, else the last.
    """
    for candidate in candidates:
        with contextlib.suppress(OSError):
            if candidate.stat().st_mode & stat.S_IWOTH:
                return candidate / "tarmac-leases"
    return candidates[-1] / "tarmac-leases"


@dataclasses.dataclass(frozen=True)
class TaskLeases:
    """The GPUs that a run has leased for a task.

    Attributes:
        gpus: UUIDs of the leased GPUs.
        directory: Where runs within the task lease them from each other.
    """

    gpus: Sequence[str]
    directory: Path

    def variables(self) -> dict[str, str]:
        """Return what tells a task of them that this process starts."""
        facts = {
            "owner": os.getpid(),
            "gpus": [*self.gpus],
            "directory": str(self.directory.absolute()),
        }
        return {_VARIABLE: json.dumps(facts)}


def inherited_leases(environment: Mapping[str, str]) -> TaskLeases | None:
    """Return what the run has leased whose task this process is of; None where it is of none.

    Args:
        environment: This process's. What it says counts only while the owner of the leases is among
            this process's parents: a program that has left its task has none.
    """
    try:
        facts = json.loads(environment[_VARIABLE])
        leases = TaskLeases(tuple(facts["gpus"]), Path(facts["directory"]))
        owner = facts["owner"]
    except (KeyError, TypeError, ValueError):
        return None
    return leases if owner in _parents() else None


def _parents() -> set[int]:
    while True:
        # One that ends while it is looked at leaves its children to another parent.
        with contextlib.suppress(psutil.NoSuchProcess):
            return {parent.pid for parent in psutil.Process().parents()}


class Leases:
    """Locks on GPUs, in a directory that several users share.

    Whoever comes first makes the directory, as open to all as ``/tmp`` is, and a GPU's file, which
    others open for reading alone: a lock needs no more. Links are not followed, and nothing is
    written, so a directory that a rival has prepared can withhold a GPU and do nothing worse.

    Args:
        directory: Made when it is first needed.
        inherited: What the run has leased whose task this process is of.
    """

    def __init__(self, directory: Path, inherited: TaskLeases | None = None) -> None:
        self._directory = directory
        self._inherited = inherited
        self._files: dict[str, int] = {}
        self._held: set[str] = set()
        weakref.finalize(self, _close_all, self._files)

    def open(self, uuid: str) -> None:
        """Make ready to lease a GPU.

        Raises:
            RequestError: Its file cannot be opened.
        """
        if uuid in self._files:
            return
        own = self._inherited
        directory = own.directory if own is not None and uuid in own.gpus else self._directory
        path = directory / _file_name(uuid)
        try:
            self._files[uuid] = _open(directory, path.name)
        except OSError as error:
            raise RequestError(
                f"{path}: GPUs cannot be leased from other processes: {error.strerror}",
                hint=f"Have it taken away by whom it belongs to: ls -la {quoted(directory)}",
            ) from error

    def take(self, uuid: str) -> bool:
        """Lease a GPU; False while another process has it.

        Raises:
            RequestError: Its file cannot be opened.
        """
        if uuid in self._held:
            return True
        self.open(uuid)
        if not lock_descriptor(self._files[uuid]):
            return False
        self._held.add(uuid)
        return True

    def give_back(self, uuid: str) -> None:
        """End a lease; nothing happens where there is none."""
        if uuid in self._held:
            self._held.remove(uuid)
            unlock_descriptor(self._files[uuid])


def _close_all(files: dict[str, int]) -> None:
    for descriptor in files.values():
        os.close(descriptor)
    files.clear()


def _file_name(uuid: str) -> str:
    # An instance of a GPU may be named GPU-.../1/2.
    return f"{uuid.replace('/', '_')}.lock"


def _open(directory: Path, name: str) -> int:
    """Open a lock's file for reading, and make it where it is not there yet."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(parents=True)
        # As /tmp itself: anybody may make files, nobody may take another's away.
        directory.chmod(0o1777)
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(FileNotFoundError):
            return _open_regular(name, there)
        # It appears with its final rights, so that nobody finds one that cannot be read.
        part = f".{name}.{secrets.token_hex(4)}"
        made = os.open(part, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, dir_fd=there)
        try:
            os.fchmod(made, 0o644)
            with contextlib.suppress(FileExistsError):
                os.link(part, name, src_dir_fd=there, dst_dir_fd=there)
        finally:
            os.close(made)
            os.unlink(part, dir_fd=there)
        return _open_regular(name, there)
    finally:
        os.close(there)


def _open_regular(name: str, directory: int) -> int:
    # Without O_NONBLOCK a pipe of that name would be waited for.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise FileExistsError(0, "it is no regular file")

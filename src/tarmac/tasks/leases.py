"""GPU leases that processes of all users respect: locks, which end with their holder.

A run within a task of another run finds its GPUs leased by the outer run. The outer run therefore
passes a second lease directory to the task. Inner runs lease these GPUs from each other there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import stat
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tarmac.errors import RequestError, quoted
from tarmac.files import lock_descriptor, unlock_descriptor

_VARIABLE = "TARMAC_LEASES"

# All users may write here, and the directory does not outlive a reboot (FHS 3.0).
_LOCKS = Path("/run/lock")
_TEMPORARY = Path("/tmp")  # noqa: S108 - unlike TMPDIR, the same for all users; see Leases


def default_leases(candidates: tuple[Path, ...] = (_LOCKS, _TEMPORARY)) -> Path:
    """Return the directory in which processes of all users on this machine lease GPUs.

    The directory depends on the machine alone and not on the caller, so all users share it.

    Args:
        candidates: Directories to try; the first that every user may write to is taken, else the
            last.
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
        directory: Directory in which runs within the task lease these GPUs from each other.
    """

    gpus: Sequence[str]
    directory: Path

    def variables(self) -> dict[str, str]:
        """Return the environment variables that pass the leases to a task of this process."""
        facts = {
            "owner": os.getpid(),
            "gpus": [*self.gpus],
            "directory": str(self.directory.absolute()),
        }
        return {_VARIABLE: json.dumps(facts)}


def inherited_leases(environment: Mapping[str, str]) -> TaskLeases | None:
    """Return the leases of the task that this process belongs to; None outside a task.

    Args:
        environment: Environment variables of this process. The leases count only while their owner
            is among this process's parents: a program that has left its task has none.
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
        # A parent that ends during the walk leaves its children to another parent: walk again.
        with contextlib.suppress(psutil.NoSuchProcess):
            return {parent.pid for parent in psutil.Process().parents()}


class Leases:
    """Locks on GPUs, in a directory that several users share.

    The first process creates the directory, open to all as ``/tmp`` is, and a file per GPU. Other
    users open the file for reading only, which is enough for a lock. Links are not followed and
    nothing is written. A directory that an attacker has prepared can withhold a GPU and do nothing
    worse.

    Args:
        directory: Lease directory, created on first use.
        inherited: Leases of the task that this process belongs to; None outside a task.
    """

    def __init__(self, directory: Path, inherited: TaskLeases | None = None) -> None:
        self._directory = directory
        self._inherited = inherited
        self._files: dict[str, int] = {}
        self._held: set[str] = set()
        weakref.finalize(self, _close_all, self._files)

    def open(self, uuid: str) -> None:
        """Open the lock file of a GPU without leasing the GPU.

        Raises:
            RequestError: The lock file cannot be opened.
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
                hint=f"Ask its owner to remove it: ls -la {quoted(directory)}",
            ) from error

    def take(self, uuid: str) -> bool:
        """Lease a GPU; return False while another process holds the lease.

        Raises:
            RequestError: The lock file cannot be opened.
        """
        if uuid in self._held:
            return True
        self.open(uuid)
        if not lock_descriptor(self._files[uuid]):
            return False
        self._held.add(uuid)
        return True

    def give_back(self, uuid: str) -> None:
        """Release a lease; do nothing without one."""
        if uuid in self._held:
            self._held.remove(uuid)
            unlock_descriptor(self._files[uuid])


def _close_all(files: dict[str, int]) -> None:
    for descriptor in files.values():
        os.close(descriptor)
    files.clear()


def _file_name(uuid: str) -> str:
    # The UUID of a MIG instance may have slashes: GPU-.../1/2.
    return f"{uuid.replace('/', '_')}.lock"


def _open(directory: Path, name: str) -> int:
    """Open a lock file for reading; create it if it is missing."""
    with contextlib.suppress(FileExistsError):
        directory.mkdir(parents=True)
        # Like /tmp: every user may create files, and none may delete another user's.
        directory.chmod(0o1777)
    there = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with contextlib.suppress(FileNotFoundError):
            return _open_regular(name, there)
        # The link appears with its final permissions: no other process sees an unreadable file.
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
    # Without O_NONBLOCK, opening a pipe of that name would block.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise FileExistsError(0, "it is not a regular file")

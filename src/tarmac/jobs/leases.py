"""Leases of GPUs that processes of all users respect: locks, which end with their holder."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import weakref
from pathlib import Path

from tarmac.errors import RequestError
from tarmac.files import lock_descriptor, unlock_descriptor

__all__ = ["Leases", "default_leases"]

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


class Leases:
    """Locks on GPUs, in a directory that several users share.

    Whoever comes first makes the directory, as open to all as ``/tmp`` is, and a GPU's file, which
    others open for reading alone: a lock needs no more. Links are not followed, and nothing is
    written, so a directory that a rival has prepared can withhold a GPU and do nothing worse.

    Args:
        directory: Made when it is first needed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
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
        path = self._directory / _file_name(uuid)
        try:
            self._files[uuid] = _open(self._directory, path.name)
        except OSError as error:
            raise RequestError(
                f"{path}: GPUs cannot be leased from other processes: {error.strerror}",
                hint=f"Have it taken away by whom it belongs to: ls -la {self._directory}",
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

"""Secrets for nodes: private files outside the run's directory, removed with the run.

Engines store what they get: Slurm writes a job's script and environment into its state directory
and, at some sites, into its database. So the engine carries no secret to an agent. The runner
writes secrets to files, which the agent reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

import platformdirs

from tarmac.errors import RequestError, quoted
from tarmac.files import expanded, make_private, read_errors, storage_errors, write_bytes

# Names the run of a spool, so that `sweep_spools` finds the spools of removed runs.
_OWNER = ".run"


class Spool:
    """The secrets of one run, each in a file of its own.

    A run has the same spool in every session, so the next session also finds the secrets of a
    session that was killed.

    Args:
        run: The run's directory; its path determines the spool's name.
        root: Directory of all spools, which the nodes must see too. Default: ``TARMAC_SPOOL``, else
            ``spool`` in the user's state directory.

    Attributes:
        directory: Directory of this spool's files; made with the first file.
    """

    def __init__(self, run: Path, root: Path | None = None) -> None:
        self._run = run.resolve()
        self._root = expanded(root or _default_root()).absolute()
        digest = hashlib.blake2b(os.fsencode(self._run), digest_size=4).hexdigest()
        self.directory = self._root / f"{self._run.name}-{digest}"
        self._known: dict[str, bytes] = {}

    def put(self, name: str, value: bytes) -> Path:
        """Write a secret, replacing an earlier one of the same name.

        Args:
            name: File name, unique in the run, such as the variable that the secret comes from.
            value: Content of the secret, in bytes.

        Returns:
            The file that holds it.

        Raises:
            RequestError: The directory belongs to another user, or others can access it.
            StorageError: The secret cannot be written.
        """
        path = self.directory / name
        if self._known.get(name) == value:
            return path
        with storage_errors(self.directory):
            if not self._known:
                _make_private(self._root)
                _make_private(self.directory)
                write_bytes(self.directory / _OWNER, os.fsencode(self._run), is_private=True)
        write_bytes(path, value, is_private=True)
        self._known[name] = value
        return path

    def read(self, name: str) -> bytes | None:
        """Return the secret of a name from this session or an earlier one; None for none.

        Raises:
            StorageError: The file cannot be read.
        """
        path = self.directory / name
        with read_errors(path):
            return path.read_bytes() if path.exists() else None

    def forget(self, name: str) -> None:
        """Remove a secret, if it exists."""
        self._known.pop(name, None)
        with storage_errors(self.directory):
            (self.directory / name).unlink(missing_ok=True)
            if self.directory.exists() and [*self.directory.iterdir()] == [self.directory / _OWNER]:
                self.remove()

    def remove(self) -> None:
        """Remove the whole spool, if it exists."""
        self._known.clear()
        shutil.rmtree(self.directory, ignore_errors=True)


def sweep_spools(root: Path | None = None) -> None:
    """Remove the spools of runs that have been removed.

    Args:
        root: Directory of all spools; see `Spool`.
    """
    for owner in expanded(root or _default_root()).glob(f"*/{_OWNER}"):
        with contextlib.suppress(OSError):
            run = Path(os.fsdecode(owner.read_bytes()))
            # Where the run's parent is missing too, its file system may just not be mounted here.
            if run.parent.is_dir() and not run.exists():
                shutil.rmtree(owner.parent, ignore_errors=True)


def _default_root() -> Path:
    named = os.environ.get("TARMAC_SPOOL")
    return Path(named) if named else platformdirs.user_state_path("tarmac") / "spool"


def _make_private(directory: Path) -> None:
    if not make_private(directory):
        raise RequestError(
            f"{directory}: secrets are not stored here, because others could read or replace them",
            hint=f"Make it a directory of your own: rm -r {quoted(directory)}; or name another "
            "place: TARMAC_SPOOL=DIRECTORY",
        )

"""Accounting for a `OneMachineSlurm`: slurmdbd with a MariaDB and a MUNGE of its own."""

from __future__ import annotations

import dataclasses
import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarmac.errors import RequestError, TarmacError
from tarmac.testing.slurm.programs import search_path

# unix(7): a socket's path has at most 108 bytes, including its terminating zero.
_LONGEST_SOCKET = 107

# Paths of the server's system tables in Debian, Fedora and others.
_SYSTEM_TABLES = tuple(
    Path("/usr/share") / name / file
    for name in ("mysql", "mariadb")
    for file in ("mysql_system_tables.sql", "mariadb_system_tables.sql")
)

_CONF = """\
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={logs}/slurmdbd
PidFile={directory}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""

# Slurm's commands read the socket from `AuthInfo`; clients of slurmdbd read it from the password.
_LINES = """\
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={munge}
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={munge}
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1"""


@dataclasses.dataclass(frozen=True)
class Accounts:
    """The files and commands of slurmdbd, MariaDB and MUNGE.

    Attributes:
        directory: The cluster's directory, for sockets, keys and the database.
        logs: Directory of the daemons' logs.
    """

    directory: Path
    logs: Path

    @property
    def sockets(self) -> Mapping[str, Path]:
        """The socket of each daemon that slurmdbd needs, in the order of their start."""
        return {
            "munged": self.directory / "munge.sock",
            "mariadbd": self._database / "mariadbd.sock",
        }

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables for slurmdbd, as its database has only a socket, no port."""
        return {"MYSQL_UNIX_PORT": str(self.sockets["mariadbd"])}

    def command(self, daemon: str) -> Sequence[str]:
        """Return the command that runs a daemon in the foreground."""
        directory, sockets = self.directory, self.sockets
        return {
            "munged": (
                # munged objects where others cannot reach its socket, which is intended here.
                *("munged", "--foreground", "--force"),
                *(f"--key-file={directory}/munge.key", f"--seed-file={directory}/munge.seed"),
                *(f"--socket={sockets['munged']}", f"--pid-file={directory}/munge.pid"),
                f"--log-file={self.logs}/munged",
            ),
            "mariadbd": (
                *self._mariadbd,
                *("--skip-networking", f"--socket={sockets['mariadbd']}"),
                f"--pid-file={self._database}/pid",
            ),
            "slurmdbd": ("slurmdbd", "-D"),
        }[daemon]

    def lines(self, port: int) -> str:
        """Return the lines of ``slurm.conf`` for this slurmdbd."""
        return _LINES.format(munge=self.sockets["munged"], port=port)

    def write(self, port: int) -> None:
        """Write all files, and set up the database where it does not exist.

        Raises:
            RequestError: The directory's path is too long for sockets.
            TarmacError: MariaDB cannot be set up.
        """
        for path in self.sockets.values():
            if len(os.fsencode(path)) > _LONGEST_SOCKET:
                raise RequestError(
                    f"socket paths in {self.directory} are too long",
                    hint=f"Choose a directory with a path of fewer than {_LONGEST_SOCKET - 20} "
                    "bytes.",
                )
            path.unlink(missing_ok=True)
        _write_privately(self.directory / "munge.key", secrets.token_bytes(1024))
        text = _CONF.format(
            munge=self.sockets["munged"], port=port, directory=self.directory, logs=self.logs
        )
        _write_privately(self.directory / "slurmdbd.conf", text.encode())
        if not self._database.exists():
            self._database.mkdir(mode=0o700)
            self._set_up()

    def _set_up(self) -> None:
        tables = next((path for path in _SYSTEM_TABLES if path.exists()), None)
        if tables is None:
            raise TarmacError(f"/usr/share lacks MariaDB's {_SYSTEM_TABLES[0].name}")
        # slurmdbd stores procedures in the database, which needs those tables.
        done = subprocess.run(
            [*self._mariadbd, "--bootstrap"],
            input=b"CREATE DATABASE mysql;\nUSE mysql;\n" + tables.read_bytes(),
            capture_output=True,
            check=False,
            env=os.environ | {"PATH": search_path()},
        )
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise TarmacError(f"cannot set up MariaDB: {lines[-1] if lines else 'no output'}")

    @property
    def _mariadbd(self) -> Sequence[str]:
        return (
            *("mariadbd", "--no-defaults", "--user=root", f"--datadir={self._database}"),
            # Safe without passwords, as only root can reach the socket.
            *("--skip-grant-tables", "--performance-schema=OFF"),
            # slurmdbd asks for these sizes. Durability does not matter, as this is a trial.
            *("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=64M"),
            *("--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0"),
        )

    @property
    def _database(self) -> Path:
        return self.directory / "database"


def _write_privately(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - of a descriptor
        file.write(content)

"""A Slurm cluster of two nodes on one machine, in its own directory, for trials and tests.

Debian's packages suffice: ``slurm-wlm``, and `ACCOUNTING_PACKAGES` for accounting. The nodes
``n1`` and ``n2`` have two fake GPUs each, copies of /dev/null. The cluster neither reads nor
writes ``/etc/slurm``.

Example::

    with OneMachineSlurm(Path("cluster")) as cluster:
        subprocess.run(["sinfo"], env=os.environ | cluster.variables)
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tarmac.errors import RequestError, TarmacError
from tarmac.processes import guarded
from tarmac.testing.slurm.configuration import NODES, Configuration
from tarmac.testing.slurm.programs import require, search_path

__all__ = ["ACCOUNTING_PACKAGES", "NODES", "OneMachineSlurm"]

PACKAGES = ("slurm-wlm",)
ACCOUNTING_PACKAGES = ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server-core", "munge")

_PROGRAMS = ("slurmctld", "slurmd", "sbatch")
_ACCOUNTING_PROGRAMS = ("slurmdbd", "mariadbd", "munged", "sacctmgr")

# Slurm's daemons register with each other within a second or two; on a busy machine later.
_READY_WITHIN_S = 60.0
_END_WITHIN_S = 10.0
_JOBS_END_WITHIN_S = 5.0
_LOOK_EVERY_S = 0.1

# Another process may take a port after it was chosen. Then the cluster starts again.
_STARTS = 5


class OneMachineSlurm:
    """Two nodes and a controller, which end with this process, however it ends.

    Args:
        directory: Directory that gets all files of the cluster; made where it does not exist.
        settings: Additional lines for ``slurm.conf``, such as ``MaxArraySize=11``.
        partitions: Lines of the form ``PartitionName=...``. Default: one partition, ``main``.
        cpus: Number of CPUs of each node. Default: all CPUs of this machine.
        memory_mib: Memory of each node, in MiB. Default 4096.
        accounting: Whether to keep accounts, by its own slurmdbd, MariaDB and MUNGE. Default false.
        accounts: Accounts of the user root, each with its limits in sacctmgr's form: ``{"few":
            ["MaxSubmitJobs=3"]}``. They are made before the controller starts, as Slurm 22.05
            crashes when a second account is added later.

    Raises:
        RequestError: Slurm is not installed, or this user may not start it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Sequence[str] = (),
        partitions: Sequence[str] = ("PartitionName=main Nodes=ALL Default=YES State=UP",),
        cpus: int | None = None,
        memory_mib: int = 4096,
        accounting: bool = False,
        accounts: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        require(_PROGRAMS, "Slurm is not installed", PACKAGES)
        if accounting:
            require(
                _ACCOUNTING_PROGRAMS,
                "the programs for Slurm's accounting are not installed",
                ACCOUNTING_PACKAGES,
            )
        if os.geteuid() != 0:
            raise RequestError("only root can start Slurm nodes", hint="Use sudo.")
        self.directory = directory.resolve()
        self._configuration = Configuration(
            directory=self.directory,
            settings=tuple(settings),
            partitions=tuple(partitions),
            cpus=cpus or os.cpu_count() or 1,
            memory_mib=memory_mib,
            accounting=accounting,
        )
        self._accounts = accounts or {}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._guard = contextlib.ExitStack()

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables that point Slurm's commands to this cluster."""
        return {"SLURM_CONF": str(self._configuration.conf)}

    def start(self) -> None:
        """Start the daemons and wait until the nodes are ready.

        Raises:
            TarmacError: A daemon ends, or the nodes are not ready within a minute.
        """
        (conf,) = self.variables.items()
        # Jobs outlive their daemons, so the guard ends each process with this cluster's variable.
        self._guard.enter_context(guarded(conf[1], variable=conf[0]))
        for start in range(_STARTS):
            self._configuration.write()
            try:
                self._start_all()
            except _DaemonError as ended:
                self._end_daemons()
                if start == _STARTS - 1:
                    raise TarmacError(
                        f"{ended.name} of the Slurm in {self.directory} exited during its start",
                        hint=f"Read its log: {self._log(ended.name)}",
                    ) from None
            else:
                return

    def start_daemon(self, name: str) -> None:
        """Start a daemon: ``slurmctld``, ``slurmdbd``, or a node's slurmd by the node's name."""
        accounts = self._configuration.accounts
        with self._log(name).open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                self._configuration.command(name),
                # A daemon that crashes leaves its core dump here.
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ
                | {"PATH": search_path()}
                | dict(self.variables)
                | dict(accounts.variables if accounts else {}),
                start_new_session=True,
            )

    def end_daemon(self, name: str, *, kill: bool = False) -> None:
        """End a daemon; the job steps of a node continue."""
        daemon = self._daemons.pop(name)
        daemon.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.wait(_END_WITHIN_S)
        daemon.kill()
        daemon.wait()

    def stop(self) -> None:
        """End all jobs and all daemons."""
        controller = self._daemons.get("slurmctld")
        # Without a controller, the guard alone ends the jobs.
        if controller is not None and controller.poll() is None:
            self._end_jobs()
        self._end_daemons()
        self._guard.close()

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands on this cluster; return its output.

        Raises:
            TarmacError: The command fails, or does not answer within a minute.
        """
        try:
            done = subprocess.run(
                command,
                env=os.environ | dict(self.variables),
                capture_output=True,
                text=True,
                timeout=_READY_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TarmacError(f"{command[0]} does not answer") from None
        if done.returncode:
            raise TarmacError(f"{command[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def wait_until(
        self, is_so: Callable[[], bool], what: str, *, within_s: float = _READY_WITHIN_S
    ) -> None:
        """Wait until a condition on this cluster holds.

        Args:
            is_so: Returns whether the condition holds.
            what: Condition in words, for the error message.
            within_s: Seconds to wait. Default 60.

        Raises:
            TarmacError: The condition does not hold in time.
        """
        end = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > end:
                raise TarmacError(
                    f"the Slurm in {self.directory} is not ready in time; waited until {what}",
                    hint=f"Read its logs: {self._configuration.logs}",
                )
            time.sleep(_LOOK_EVERY_S)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start_all(self) -> None:
        accounts = self._configuration.accounts
        if accounts is not None:
            for name, socket in accounts.sockets.items():
                self.start_daemon(name)
                self._wait_for_start(socket.is_socket, f"{name} listens")
            self.start_daemon("slurmdbd")
            self._wait_for_start(
                lambda: self._answers("sacctmgr", "-n", "show", "cluster"), "slurmdbd answers"
            )
            self._add_accounts()
        for name in ("slurmctld", *NODES):
            self.start_daemon(name)
        self._wait_for_start(lambda: self._states() == {"idle"}, "its nodes are idle")

    def _add_accounts(self) -> None:
        add = ("sacctmgr", "--immediate", "add")
        if self.run("sacctmgr", "-n", "show", "cluster").strip():
            return
        self.run(*add, "cluster", self._configuration.name)
        for account, limits in self._accounts.items():
            self.run(*add, "account", account)
            self.run(*add, "user", "root", f"account={account}", *limits)

    def _wait_for_start(self, is_so: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            for name, daemon in self._daemons.items():
                if daemon.poll() is not None:
                    raise _DaemonError(name)
            return is_so()

        self.wait_until(look, what)

    def _end_jobs(self) -> None:
        with contextlib.suppress(TarmacError):
            self.run("scancel", f"--user={os.getuid()}")
            # The guard kills jobs that ignore SIGTERM; Slurm would first wait for KillWait.
            self.wait_until(
                lambda: not self.run("squeue", "-h").strip(),
                "its jobs have ended",
                within_s=_JOBS_END_WITHIN_S,
            )

    def _end_daemons(self) -> None:
        # The accounting daemons start first, so they end last.
        for name in reversed([*self._daemons]):
            self.end_daemon(name)

    def _answers(self, *command: str) -> bool:
        try:
            self.run(*command)
        except TarmacError:
            return False
        return True

    def _states(self) -> set[str]:
        try:
            shown = self.run("sinfo", "-h", "-N", "-o", "%T")
        except TarmacError:
            return set()
        return {line.strip() for line in shown.splitlines()}

    def _log(self, name: str) -> Path:
        return self._configuration.logs / f"{name}.out"


class _DaemonError(Exception):
    """A daemon ended during its start."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

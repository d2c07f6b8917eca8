"""The files and commands of a Slurm cluster whose nodes are all this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path

from tarmac.testing.slurm.accounts import Accounts

NODES = ("n1", "n2")

_GPUS_PER_NODE = 2

_CONF = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
{authentication}
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldPort={port}
SlurmctldLogFile={logs}/slurmctld
SlurmdLogFile={logs}/slurmd-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=1
DefMemPerCPU=256
KillWait=15
# By default a job begins up to 3 s late, for the sake of large sites.
SchedulerParameters=batch_sched_delay=0
{settings}
{nodes}
{partitions}
"""

_WITHOUT_ACCOUNTS = """\
AuthType=auth/none
CredType=cred/none"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """The configuration of a `OneMachineSlurm`.

    Attributes:
        directory: Directory that gets all files of the cluster.
        settings: Additional lines for ``slurm.conf``, such as ``MaxArraySize=11``.
        partitions: Lines of the form ``PartitionName=...`` for ``slurm.conf``.
        cpus: Number of CPUs of each node.
        memory_mib: Memory of each node, in MiB.
        accounting: Whether slurmdbd keeps accounts of jobs.
        name: Name of the cluster, ``ClusterName``. Default ``tarmac``.
    """

    directory: Path
    settings: tuple[str, ...]
    partitions: tuple[str, ...]
    cpus: int
    memory_mib: int
    accounting: bool
    name: str = "tarmac"

    @property
    def conf(self) -> Path:
        """The path of ``slurm.conf``."""
        return self.directory / "slurm.conf"

    @property
    def logs(self) -> Path:
        """The directory of the daemons' logs."""
        return self.directory / "log"

    @property
    def accounts(self) -> Accounts | None:
        """The accounting daemons; None without accounting."""
        return Accounts(self.directory, self.logs) if self.accounting else None

    def command(self, daemon: str) -> Sequence[str]:
        """Return the command that runs a daemon in the foreground; a slurmd has its node's name."""
        if daemon == "slurmctld":
            return ("slurmctld", "-D", "-f", str(self.conf))
        if daemon in NODES or self.accounts is None:
            return ("slurmd", "-D", "-N", daemon, "-f", str(self.conf))
        return self.accounts.command(daemon)

    def write(self) -> None:
        """Write all files, with ports that are free now.

        Raises:
            RequestError: The directory's path is too long for sockets.
            TarmacError: MariaDB cannot be set up.
        """
        for name in ("state", "log", *(f"spool/{node}" for node in NODES)):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        controller, accounting, *ports = _free_ports(2 + len(NODES))
        authentication = _WITHOUT_ACCOUNTS
        if self.accounts is not None:
            self.accounts.write(accounting)
            authentication = self.accounts.lines(accounting)
        host = socket.gethostname().partition(".")[0]
        nodes, gpus = [], []
        for node, port in zip(NODES, ports, strict=True):
            files = [self.directory / f"{node}-gpu{number}" for number in range(_GPUS_PER_NODE)]
            for file in files:
                # Slurm accepts only devices as GPUs. These are copies of /dev/null.
                if not file.exists():
                    os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            gpus += [f"NodeName={node} Name=gpu File={file}" for file in files]
            nodes.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                f"CPUs={self.cpus} RealMemory={self.memory_mib} Gres=gpu:{_GPUS_PER_NODE} "
                "State=UNKNOWN"
            )
        self.conf.write_text(
            _CONF.format(
                name=self.name,
                host=host,
                authentication=authentication,
                directory=self.directory,
                logs=self.logs,
                port=controller,
                settings="\n".join(self.settings),
                nodes="\n".join(nodes),
                partitions="\n".join(self.partitions),
            )
        )
        (self.directory / "gres.conf").write_text("\n".join(gpus) + "\n")


def _free_ports(count: int) -> list[int]:
    """Return distinct ports that are free now."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for taken in sockets:
            taken.bind(("127.0.0.1", 0))
        return [int(taken.getsockname()[1]) for taken in sockets]

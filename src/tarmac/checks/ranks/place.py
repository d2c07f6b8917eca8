"""The rank of this process, from the environment variables of torchrun, Slurm and MPI."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import socket
from collections.abc import Mapping

from tarmac.errors import RequestError

# Variables with the rank, the number of ranks, the local rank, and the identity of a launch.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", ("TORCHELASTIC_RUN_ID", "MASTER_PORT")),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ()),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ()),
)

# Number of ports to try; rank 0 listens on the first that is free on its host.
_NUM_PORTS = 8
_LAST_PORT = 65535
# Below the ports that Linux gives to clients (ip_local_port_range starts at 32768).
_FIRST_PORT, _PORTS = 20000, 12000

_HINT = (
    "Start it on every host, with one process for each GPU or one for each host:\n"
    "srun tarmac check --ranks all\n"
    "torchrun --nnodes 2 --nproc-per-node 8 ... --no-python tarmac check --ranks all\n"
    "mpirun -x MASTER_ADDR=HOST-OF-RANK-0 tarmac check --ranks all"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """The rank of this process, and the rendezvous of its launch.

    Attributes:
        rank: Global rank of this process, from 0.
        size: Number of ranks in the launch, at least 2.
        local_rank: Rank among the processes of its host, from 0.
        host: Host of rank 0, to which all other ranks connect.
        ports: TCP ports to try; rank 0 listens on the first free port of these.
        launch: Identity of the launch, as rank 0's host may serve several launches.
    """

    rank: int
    size: int
    local_rank: int
    host: str
    ports: tuple[int, ...]
    launch: str


def host_name(environment: Mapping[str, str]) -> str:
    """Return this host's name: Slurm's where Slurm started the process, else the system's."""
    return environment.get("SLURMD_NODENAME") or socket.gethostname()


def find_place(environment: Mapping[str, str]) -> Place:
    """Return this process's place by its launcher's environment variables.

    Raises:
        RequestError: The variables are missing, name no host of rank 0, or hold no valid numbers.
    """
    for launcher in _LAUNCHERS:
        rank_name, size_name, local_name, names = launcher
        if rank_name in environment and size_name in environment:
            break
    else:
        raise RequestError("--ranks all is for ranks that a launcher has started", hint=_HINT)
    rank, size = (_number(environment, name) for name in (rank_name, size_name))
    local_rank = _number(environment, local_name) if local_name in environment else 0
    if not rank < size or size == 1:
        raise RequestError(
            f"{rank_name}={rank} and {size_name}={size}, expected at least 2 ranks from 0 on",
            hint=_HINT,
        )
    launch = "-".join(environment.get(name, "") for name in (*names, "PMIX_NAMESPACE"))
    port = _FIRST_PORT + int(hashlib.sha256(launch.encode()).hexdigest(), 16) % _PORTS
    if "MASTER_PORT" in environment:
        # torchrun's own store uses MASTER_PORT itself.
        port = _number(environment, "MASTER_PORT") + 1
    return Place(
        rank=rank,
        size=size,
        local_rank=local_rank,
        host=_host(environment, size),
        ports=tuple(min(port + n, _LAST_PORT) for n in range(_NUM_PORTS)),
        launch=launch,
    )


def _number(environment: Mapping[str, str], name: str) -> int:
    if not environment[name].isdecimal():
        raise RequestError(f"{name} is {environment[name]!r}, expected a number", hint=_HINT)
    return int(environment[name])


def _host(environment: Mapping[str, str], size: int) -> str:
    if environment.get("MASTER_ADDR"):
        return environment["MASTER_ADDR"]
    for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"):
        if environment.get(name):
            return first_host(environment[name])
    if environment.get("OMPI_COMM_WORLD_LOCAL_SIZE") == str(size):
        return "127.0.0.1"
    raise RequestError(
        "MASTER_ADDR is not set: the host of rank 0, to which all ranks connect", hint=_HINT
    )


def first_host(nodes: str) -> str:
    """Return the first host of Slurm's node list: ``node03`` for ``node[03-05,9],gpu1``."""
    match = re.match(r"([^,\[]+)(?:\[(\w+)[^\]]*\])?([^,\[]*)", nodes)
    return "".join(filter(None, match.groups())) if match else nodes

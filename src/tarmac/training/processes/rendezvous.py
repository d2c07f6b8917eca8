"""The environment variables that torchrun and other launchers set for a process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tarmac.errors import RequestError

_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_PLACE = ("MASTER_ADDR", "MASTER_PORT")

_LAST_PORT = 65535

_HINT = (
    "torchrun sets all of them; under Slurm:\n"
    "srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS "
    "MASTER_ADDR=HOST MASTER_PORT=29500 tarmac train ...'\n"
    "To train in one process, unset them."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rendezvous:
    """The rank of this process, and the address of the rendezvous.

    Attributes:
        rank: Global rank of this process, from 0.
        world_size: Number of processes on all machines.
        local_rank: Rank of this process on its machine, from 0.
        local_world_size: Number of processes on this machine.
        address: Host and port of rank 0.
        launch: Name shared by all starts of one launch and no other; empty if unknown.
        num_restarts: Number of times that the launcher has restarted all processes.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    address: str
    launch: str
    num_restarts: int


def find_rendezvous(environment: Mapping[str, str], parent_pid: int) -> Rendezvous | None:
    """Read the variables of torchrun, Slurm scripts and Ray for several processes.

    Args:
        environment: Environment variables, usually ``os.environ``.
        parent_pid: Process id of the launcher. It distinguishes launches with the same run id.

    Returns:
        The rendezvous; None without a launcher.

    Raises:
        RequestError: Some variables are set without the others, or they contradict each other.
    """
    if not any(name in environment for name in _RANKS):
        if environment.get("TARMAC_NODES", "1") != "1":
            raise RequestError(
                f"this program was started once on each of {environment['TARMAC_NODES']} nodes, "
                "and would train separately on each",
                hint="Start it by torchrun, which finds the nodes in its variables, or use: "
                "tarmac train",
            )
        return None
    names = (*_RANKS, *_PLACE)
    missing = [name for name in names if not environment.get(name)]
    if missing:
        text = ", ".join(f"{name}={environment[name]}" for name in names if name not in missing)
        raise RequestError(f"{text} set, but not {', '.join(missing)}", hint=_HINT)
    numbers = {}
    for name in (*_RANKS, "MASTER_PORT"):
        if not environment[name].isdecimal():
            raise RequestError(f"{name} is {environment[name]!r}, expected a number", hint=_HINT)
        numbers[name] = int(environment[name])
    if not 0 < numbers["MASTER_PORT"] <= _LAST_PORT:
        raise RequestError(
            f"MASTER_PORT is {numbers['MASTER_PORT']}, expected 1 to {_LAST_PORT}", hint=_HINT
        )
    rank, world_size, local_rank = (numbers[name] for name in _RANKS)
    local_text = environment.get("LOCAL_WORLD_SIZE", "")
    local_world_size = int(local_text) if local_text.isdecimal() else world_size
    if not (rank < world_size and local_rank < local_world_size <= world_size):
        raise RequestError(
            f"RANK={rank}, LOCAL_RANK={local_rank}, LOCAL_WORLD_SIZE={local_world_size} and "
            f"WORLD_SIZE={world_size} contradict each other",
            hint=_HINT,
        )
    launch = find_launch(environment)
    run_id = environment.get("TORCHELASTIC_RUN_ID", "")
    if run_id and not launch:
        launch = f"{run_id}-{parent_pid}"
    return Rendezvous(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=local_world_size,
        address=f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}",
        launch=launch,
        num_restarts=int(environment.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )


def find_launch(environment: Mapping[str, str]) -> str:
    """Return the name of the task that this process trains for; empty without a task.

    ``TARMAC_LAUNCH`` is the same for all attempts of a task, and differs between tasks. So a later
    attempt resumes the run of an earlier one.

    Args:
        environment: Environment variables, usually ``os.environ``.
    """
    return environment.get("TARMAC_LAUNCH", "")

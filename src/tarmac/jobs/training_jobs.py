"""A training as a job of one task, on as many nodes as are asked for."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.files import job_name, trust_in_this_user
from tarmac.jobs.model import Job, Resources, Retries
from tarmac.jobs.placeholders import escape
from tarmac.jobs.plan import LAUNCH
from tarmac.processes import python_command

if TYPE_CHECKING:
    from collections.abc import Sequence

# How a training on several nodes ends that has lost a worker: 69 and 75 (sysexits.h) of one that
# has found another one hung, or missed others; 128 + SIGABRT, SIGBUS, SIGKILL, SIGSEGV of the one
# that was lost. An error of its own would come again.
_LOST_WORKER = (os.EX_UNAVAILABLE, os.EX_TEMPFAIL, 134, 135, 137, 139)

# What was lost is on one node; nothing elsewhere recovers meanwhile.
_PAUSE_S = 0.1


def training_job(
    workload: str,
    options: Sequence[str],
    *,
    output: Path,
    nodes: int = 1,
    gpus_per_node: int = 0,
    cpus_per_node: int | None = None,
    max_restarts: int = 3,
) -> Job:
    """Return the job that trains a workload.

    A worker that is lost ends its attempt on all nodes, and the next one goes on from the newest
    checkpoint.

    Args:
        workload: A name, or ``path/to/file.py:attribute``.
        options: Options of ``tarmac train``, such as ``--devices``, without the workload.
        output: Where the training's run is made; all nodes must see it.
        nodes: How many machines train together.
        gpus_per_node: That each must have; 0 trains on CPUs.
        cpus_per_node: That each must have; by default one for each GPU.
        max_restarts: How often the training begins again after a lost worker.

    Raises:
        ValidationError: A number is not in its range.
    """
    path, separator, attribute = workload.rpartition(":")
    reference = f"{Path(path).resolve()}:{attribute}" if separator else workload
    stem = attribute if separator else workload
    names = {part.partition("=")[0] for part in options}
    devices = () if names & {"--devices", "--device", "--resume"} else _devices(gpus_per_node)
    data = os.environ.get("TARMAC_DATA")
    return Job(
        name=f"train-{job_name(stem)}",
        command=tuple(
            python_command(
                *("tarmac", "train"),
                *(escape(part) for part in (reference, *options, *devices)),
                "--output",
                escape(str(output.resolve())),
                python="{{ tarmac.python }}",
            )
        ),
        resources=Resources(
            nodes=nodes,
            gpus=gpus_per_node,
            cpus=cpus_per_node or max(1, gpus_per_node),
            shares_cpus=True,
        ),
        # Workers of one node are started again there.
        retries=Retries(
            count=max_restarts if nodes > 1 else 0, backoff=_PAUSE_S, exit_codes=_LOST_WORKER
        ),
        env={
            LAUNCH: secrets.token_hex(8),
            **trust_in_this_user(),
            **({"TARMAC_DATA": str(Path(data).resolve())} if data else {}),
        },
    )


def _devices(gpus: int) -> tuple[str, ...]:
    """Return the option that takes these GPUs, or fails: never the CPU in their place."""
    if not gpus:
        return ("--devices", "cpu")
    return ("--devices", "cuda" if gpus == 1 else str(gpus))

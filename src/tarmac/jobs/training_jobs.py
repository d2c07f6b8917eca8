"""A training as a job of one task, on one or more nodes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from tarmac.files import job_name, trust_in_this_user
from tarmac.processes import python_command
from tarmac.tasks.model import Job, Resources, Retries
from tarmac.tasks.placeholders import escape
from tarmac.tasks.plan import LAUNCH

# Exit codes of a training on several nodes after the loss of a worker. 69 and 75 (sysexits.h): a
# worker found another one hung, or missed others. 128 + SIGABRT, SIGBUS, SIGKILL, SIGSEGV: the lost
# worker. Other errors would recur, so they are not retried.
_LOST_WORKER = (os.EX_UNAVAILABLE, os.EX_TEMPFAIL, 134, 135, 137, 139)

# Short, because the loss is on one node: nothing else has to recover.
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

    The loss of a worker ends the attempt on all nodes. The next attempt resumes from the newest
    checkpoint.

    Args:
        workload: Name of the workload, or ``path/to/file.py:attribute``.
        options: Options of ``tarmac train``, such as ``--devices``, without the workload.
        output: Directory where the training's run is created; all nodes must see it.
        nodes: Number of machines that train together. Default 1.
        gpus_per_node: Number of GPUs of each node. Default 0: train on CPUs.
        cpus_per_node: Number of cores of each node. Default: one for each GPU, at least one.
        max_restarts: Maximum number of restarts after the loss of a worker, on several nodes.
            Default 3.

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
        # On a single node, its own process restarts the workers.
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
    """Return the device option for these GPUs, which never falls back to the CPU."""
    if not gpus:
        return ("--devices", "cpu")
    return ("--devices", "cuda" if gpus == 1 else str(gpus))

"""The engine that started this agent, read from environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Variables that name a job's GPUs; the first one that is set wins. Under control groups Slurm
# renumbers GPUs in CUDA_VISIBLE_DEVICES only (slurm.conf(5), ConstrainDevices).
_GPUS = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "NVIDIA_VISIBLE_DEVICES")


class Engine(NamedTuple):
    """The engine that started this agent, with its unit and node.

    Attributes:
        name: Name of the engine for messages, such as ``Slurm``. Empty: no engine.
        unit: Engine's name for the unit of this agent, such as ``80_3``.
        restart: Number of times that the engine has restarted the unit. Only Slurm counts them; of
            other engines, the attempt's record has the number.
        infers_restarts: Whether a second agent of the unit is its next restart: the engine starts
            units again under their names and does not count that.
        host: Engine's name for the node.
        gpus: GPUs that the engine assigned, by number or UUID.
        signals_all: Whether the engine sends SIGTERM to each process of the unit, not only to the
            agent.
        has_lifeline: Whether this agent must end when its standard input ends, because then the
            process that started it is gone.
    """

    name: str = ""
    unit: str = ""
    restart: int = 0
    infers_restarts: bool = False
    host: str = ""
    gpus: tuple[str, ...] = ()
    signals_all: bool = False
    has_lifeline: bool = False


def read_engine(variables: Mapping[str, str]) -> Engine:
    """Read the engine from an agent's environment.

    Args:
        variables: Environment variables that the engine started this agent with.
    """
    named = next((variables[name] for name in _GPUS if name in variables), "")
    # NVIDIA's containers set `all` and `void`, which name no GPU.
    gpus = tuple(part.strip() for part in named.split(",") if part.strip())
    if gpus in {("all",), ("void",), ("none",), ("NoDevFiles",)}:
        gpus = ()
    if "TARMAC_ENGINE" in variables:
        # The process or script that started this agent describes the engine.
        has_lifeline = "TARMAC_ENGINE_LIFELINE" in variables
        return Engine(
            name=variables["TARMAC_ENGINE"],
            unit=variables.get("TARMAC_ENGINE_UNIT", ""),
            host=variables.get("TARMAC_ENGINE_HOST") or os.uname().nodename,
            gpus=gpus,
            # What keeps a lifeline ends the agent itself, and never starts its unit again.
            infers_restarts=not has_lifeline,
            has_lifeline=has_lifeline,
        )
    if "TARMAC_KUBERNETES_JOB" in variables:
        # No restarts: each restart of an index is a new pod, which the runner follows as a new
        # attempt.
        index = variables.get("JOB_COMPLETION_INDEX", "0")
        return Engine(
            name="Kubernetes",
            unit=f"{variables['TARMAC_KUBERNETES_JOB']}-{index}",
            host=variables.get("TARMAC_KUBERNETES_NODE") or os.uname().nodename,
            gpus=gpus,
        )
    host = variables.get("SLURMD_NODENAME") or os.uname().nodename
    if "SLURM_JOB_ID" not in variables:
        return Engine(host=host, gpus=gpus)
    unit = variables["SLURM_JOB_ID"]
    if "SLURM_ARRAY_JOB_ID" in variables:
        unit = f"{variables['SLURM_ARRAY_JOB_ID']}_{variables.get('SLURM_ARRAY_TASK_ID', '')}"
    return Engine(
        name="Slurm",
        unit=unit,
        restart=int(variables.get("SLURM_RESTART_COUNT") or 0),
        host=host,
        gpus=gpus,
        signals_all=True,
    )


def rank_of(variables: Mapping[str, str]) -> int:
    """Return the rank of this agent's node, from 0.

    Args:
        variables: Environment variables that the engine started this agent with.
    """
    for name in ("TARMAC_ENGINE_RANK", "JOB_COMPLETION_INDEX"):
        if variables.get(name):
            return int(variables[name])
    return int(variables["SLURM_NODEID"])


def given_environment() -> dict[str, str]:
    """Return the variables at this process's start: Python may have added a locale since."""
    content = Path("/proc/self/environ").read_bytes()
    entries = (os.fsdecode(entry).partition("=") for entry in content.split(b"\0") if entry)
    return {name: value for name, _, value in entries}

"""What the engine that started this agent says of it, in environment variables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

# What names the GPUs that a job was given; the first that is there holds. Under control groups
# Slurm numbers them anew in CUDA_VISIBLE_DEVICES alone (slurm.conf(5), ConstrainDevices).
_GPUS = ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "NVIDIA_VISIBLE_DEVICES")


class Engine(NamedTuple):
    """Who started this agent, as what, where.

    Attributes:
        name: For people: ``Slurm``; empty where there is none.
        unit: Its name for what runs here: ``80_3``.
        restart: How often it has begun that again.
        host: Its name for the node.
        gpus: The GPUs that it gave, by number or UUID.
        signals_all: Whether its SIGTERM goes to each process of the unit, not to this one alone.
        has_lifeline: Whether this agent's standard input ends with the process that started it, and
            this agent is to end with that.
    """

    name: str = ""
    unit: str = ""
    restart: int = 0
    host: str = ""
    gpus: tuple[str, ...] = ()
    signals_all: bool = False
    has_lifeline: bool = False


def read_engine(variables: Mapping[str, str]) -> Engine:
    """Read what an engine says.

    Args:
        variables: The environment that it started this agent with.
    """
    named = next((variables[name] for name in _GPUS if name in variables), "")
    # NVIDIA's containers say `all` and `void`, which name no GPU.
    gpus = tuple(part.strip() for part in named.split(",") if part.strip())
    if gpus in {("all",), ("void",), ("none",), ("NoDevFiles",)}:
        gpus = ()
    if "TARMAC_ENGINE" in variables:
        # What runs in the engine has started this agent, and says what the engine does not.
        return Engine(
            name=variables["TARMAC_ENGINE"],
            unit=variables.get("TARMAC_ENGINE_UNIT", ""),
            host=variables.get("TARMAC_ENGINE_HOST") or os.uname().nodename,
            gpus=gpus,
            has_lifeline=True,
        )
    if "TARMAC_KUBERNETES_JOB" in variables:
        # A pod's devices are its own, however often its index is begun again.
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
    """Return which of an attempt's nodes this agent is on, from 0.

    Args:
        variables: The environment that the engine started this agent with.
    """
    for name in ("TARMAC_ENGINE_RANK", "JOB_COMPLETION_INDEX"):
        if variables.get(name):
            return int(variables[name])
    return int(variables["SLURM_NODEID"])


def given_environment() -> dict[str, str]:
    """Return the variables that this process was started with: Python may have added a locale."""
    content = Path("/proc/self/environ").read_bytes()
    entries = (os.fsdecode(entry).partition("=") for entry in content.split(b"\0") if entry)
    return {name: value for name, _, value in entries}

"""The hosts of this user's work, from a cluster's own commands."""

from __future__ import annotations

import os
import shutil
import subprocess

from tarmac.errors import TarmacError
from tarmac.files import parse_json
from tarmac.slurm import NoAnswer, SlurmCommands

_RAY_TIMEOUT_S = 60.0


def slurm_hosts() -> tuple[str, ...]:
    """Return the nodes that run Slurm jobs of this user.

    Raises:
        TarmacError: Slurm does not answer.
    """
    nodes = SlurmCommands(os.environ).own_nodes()
    if isinstance(nodes, NoAnswer):
        raise TarmacError(
            f"Slurm does not say where your jobs run: {nodes.command} {nodes.words}",
            hint="Name the nodes yourself: tarmac top --hosts n01,n02",
        )
    return tuple(nodes)


def ray_hosts() -> tuple[str, ...]:
    """Return the addresses of a Ray cluster's nodes, from ``ray list nodes``.

    Raises:
        TarmacError: The command is missing, gives no answer, or its output is invalid.
    """
    program = shutil.which("ray")
    hint = "Name the nodes yourself: tarmac top --hosts n01,n02"
    if program is None:
        raise TarmacError("--ray needs the command ray, which is not in PATH", hint=hint)
    command = [program, "list", "nodes", "--format", "json", "--limit", "1000"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_RAY_TIMEOUT_S
        )
        nodes = parse_json(done.stdout)
        return tuple(node["node_ip"] for node in nodes if node.get("state") == "ALIVE")
    except subprocess.TimeoutExpired:
        problem = f"did not answer within {_RAY_TIMEOUT_S:.0f} s"
    except (ValueError, KeyError, TypeError, AttributeError):
        lines = done.stderr.strip().splitlines() or ["nothing that can be read"]
        problem = f"says: {lines[-1]}"
    raise TarmacError(f"ray list nodes {problem}", hint=hint)

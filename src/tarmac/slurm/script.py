"""The file for sbatch: the job's options, and the one command that the job runs."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from tarmac.errors import RequestError
from tarmac.slurm.interface import Script
from tarmac.slurm.site import SlurmNode, request_gpus

# Shell text for the number of an array's element; 0 in a job that is no array.
UNIT = '"${SLURM_ARRAY_TASK_ID:-0}"'

_MIB = 2**20

# Slurm may send the warning up to a minute early (sbatch(1), --signal), so shorter jobs get none.
_WARNED_FROM_S = 600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """The needs of a job; jobs of one shape can be elements of one array.

    Attributes:
        cpus: CPU cores of each node; fractions are rounded up.
        memory_bytes: Memory of each node; None for the site's default.
        gpus: GPUs of each node; below 1, a part of one GPU.
        gpu_type: Kind of GPU, such as ``a100``; empty for any.
        nodes: Number of nodes of each job. Default 1.
        time_limit_s: Time limit in seconds, rounded up to minutes; None for the partition's.
        partition, account, qos, constraint, reservation: Values of sbatch's options.
        nice: Value that lowers the priority; 0 keeps the priority.
        exclude: Names of nodes that jobs must avoid.
        extra: Further options of sbatch, each a line: ``--licenses=matlab``.
        setup: Lines of shell before the command: ``module load cuda``.
    """

    cpus: float = 1.0
    memory_bytes: int | None = None
    gpus: float = 0.0
    gpu_type: str = ""
    nodes: int = 1
    time_limit_s: float | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    reservation: str = ""
    nice: int = 0
    exclude: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A job, or an array of equal jobs.

    Attributes:
        name: Job name, unique among all jobs of this user.
        shape: Resources and limits of the job.
        command: Shell text to run; `UNIT` in it becomes the element's number.
        directory: Working directory of the command; must exist on the nodes.
        output: Path below `directory` of the command's output; ``%A`` in it is the job's number,
            ``%a`` the element's, ``%j`` the unit's own.
        elements: Number of elements of an array; None for a job that is no array.
        throttle: Most elements of an array that run at once; None for no limit.
        comment: Text that scontrol shows with the job.
    """

    name: str
    shape: Shape
    command: str
    directory: Path
    output: str
    elements: int | None = None
    throttle: int | None = None
    comment: str = ""


def write_script(request: Request, nodes: Iterable[SlurmNode] | None = ()) -> Script:
    """Return the script of a job for sbatch.

    The job starts from sbatch's environment, without a login of the user: with ``NONE`` or a list
    of names, each node would log the user in for each job. Only lines of `Shape.setup` need a
    login, for commands such as ``module``.

    Args:
        request: Job or array to write the script for.
        nodes: Nodes of the site, for a request of GPUs; None where they are unknown.

    Raises:
        RequestError: No node has such GPUs, or a value cannot be written in such a file.
    """
    shape = request.shape
    # Slurm would read a `%` in the directory as a pattern.
    output = str(request.directory).replace("%", "%%") + "/" + request.output
    options = {
        "job-name": request.name,
        "comment": request.comment,
        "array": _array(request),
        "chdir": str(request.directory),
        "output": _without_backslash(output),
        "open-mode": "append",
        "export": "ALL",
        # A requeued job survives preemption and the loss of its node.
        "requeue": None,
        "signal": _signal(shape),
        "nodes": str(shape.nodes),
        "ntasks-per-node": "1",
        "cpus-per-task": str(max(1, math.ceil(shape.cpus - 1e-9))),
        "mem": f"{math.ceil(shape.memory_bytes / _MIB)}M" if shape.memory_bytes else "",
        "gres": _gres(shape, nodes),
        "time": str(math.ceil(shape.time_limit_s / 60)) if shape.time_limit_s else "",
        "partition": shape.partition,
        "account": shape.account,
        "qos": shape.qos,
        "constraint": shape.constraint,
        "reservation": shape.reservation,
        "exclude": ",".join(shape.exclude),
        "nice": str(shape.nice) if shape.nice else "",
    }
    # Only a login shell has `module` and the site's setup.
    lines = ["#!/bin/bash -l" if shape.setup else "#!/bin/sh"]
    for name, value in options.items():
        if value is None:
            lines.append(f"#SBATCH --{name}")
        elif value:
            lines.append(f"#SBATCH --{name}={_quoted(name, value)}")
    lines += [f"#SBATCH {_one_line('an option', line)}" for line in shape.extra]
    lines += ["", *shape.setup, request.command, ""]
    return Script(
        name=request.name,
        text="\n".join(lines),
        elements=request.elements,
        throttle=request.throttle,
    )


def _array(request: Request) -> str:
    if request.elements is None:
        return ""
    throttle = f"%{request.throttle}" if request.throttle else ""
    return f"0-{request.elements - 1}{throttle}"


def _signal(shape: Shape) -> str:
    if shape.time_limit_s is not None and shape.time_limit_s < _WARNED_FROM_S:
        return ""
    return "B:USR1@60"


def _gres(shape: Shape, nodes: Iterable[SlurmNode] | None) -> str:
    if not shape.gpus:
        return ""
    return request_gpus(nodes, shape.gpus, kind=shape.gpu_type, partition=shape.partition)


def _quoted(name: str, value: str) -> str:
    """Quote a value for an ``#SBATCH`` line, where a backslash escapes quotes and itself."""
    value = _one_line(name, value)
    if re.fullmatch(r"[\w@%+=:,./-]+", value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _one_line(name: str, value: str) -> str:
    if re.search(r"[\n\r\0]", value):
        raise RequestError(f"sbatch takes no line break in {name}, which is {value!r}")
    return value


def _without_backslash(path: str) -> str:
    # With a backslash in the path, Slurm does not fill in the job's number (sbatch(1), "filename
    # pattern").
    if "\\" in path:
        raise RequestError(
            f"Slurm takes no backslash in the path of a run, which is {shlex.quote(path)}",
            hint="Choose another directory: --output DIRECTORY",
        )
    return path

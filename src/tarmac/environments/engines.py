"""Find container engines, and check that they answer."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from tarmac.errors import RequestError

_ANSWER_S = 60.0

EngineName = Literal["docker", "podman", "apptainer", "pyxis"]

# Engines for single machines, with their Debian packages.
_PACKAGES = {"docker": "docker.io", "podman": "podman"}

# Apptainer was called Singularity, and still is at many sites.
_APPTAINER = ("apptainer", "singularity")


@dataclasses.dataclass(frozen=True)
class ClusterEngine:
    """A container engine on a cluster's node.

    Attributes:
        name: Name of the engine, such as ``pyxis`` or ``apptainer``.
        program: Path of the engine's program. For Pyxis, a plugin of Slurm, the path of srun.
    """

    name: EngineName
    program: str


def engine_program(name: str | None) -> str:
    """Return the path of an engine's program, without checking that the engine answers.

    Args:
        name: Name of the engine, ``docker`` or ``podman``. None: the first that is installed.

    Raises:
        RequestError: The engine is not installed, or runs only on clusters.
    """
    if name is not None and name not in _PACKAGES:
        raise RequestError(
            f"{name} runs containers on clusters only",
            hint="engine: docker, engine: podman, or on a cluster: tarmac run FILE --on slurm",
        )
    names = (name,) if name is not None else tuple(_PACKAGES)
    program = _first(names)
    if program is None:
        missing = f"{name} is not" if name else "neither docker nor podman is"
        package = _PACKAGES[name or "docker"]
        raise RequestError(f"{missing} here", hint=f"sudo apt install {package}")
    return program


def find_engine(name: str | None, *, limit_s: float = _ANSWER_S) -> str:
    """Return the path of an engine's program after checking that the engine answers.

    Args:
        name: Name of the engine, ``docker`` or ``podman``. None: the first that is installed.
        limit_s: Timeout for the answer, in seconds. Default 60.

    Raises:
        RequestError: The engine is not installed, or does not answer. The message contains the
            engine's error.
    """
    program = engine_program(name)
    hint = f"{program} info" if is_podman(program) else "sudo systemctl start docker"
    try:
        done = subprocess.run(
            [program, "version"], capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(f"{program} does not answer within {limit_s:g} s", hint=hint) from error
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise RequestError(f"{program} does not answer: {reason}", hint=hint)
    return program


def find_cluster_engine(name: str | None) -> ClusterEngine:
    """Return the container engine on this node of a cluster.

    Args:
        name: Name of the engine. None: the first installed of Pyxis, Apptainer, Podman and Docker.

    Raises:
        RequestError: The engine is not installed on this node.
    """
    if name in (None, "pyxis") and _has_pyxis():
        return ClusterEngine("pyxis", _first(("srun",)) or "srun")
    if name in (None, "apptainer") and (program := _first(_APPTAINER)) is not None:
        return ClusterEngine("apptainer", program)
    if name in (None, "podman") and (program := _first(("podman",))) is not None:
        return ClusterEngine("podman", program)
    if name in (None, "docker") and (program := _first(("docker",))) is not None:
        return ClusterEngine("docker", program)
    missing = "no container engine is" if name is None else f"{name} is not"
    raise RequestError(
        f"{missing} on this node",
        hint="Name one that is: environment: {engine: pyxis|apptainer|podman|docker}; "
        "tarmac check --on slurm lists what nodes have",
    )


def is_podman(engine: str) -> bool:
    """Return whether an engine's program is Podman."""
    return Path(engine).name.startswith("podman")


def _first(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name)) is not None), None)


def _has_pyxis() -> bool:
    """Return whether srun has the options of the Pyxis plugin."""
    srun = shutil.which("srun")
    if srun is None:
        return False
    try:
        done = subprocess.run(
            [srun, "--help"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--container-image" in done.stdout

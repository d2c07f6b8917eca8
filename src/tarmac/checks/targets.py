"""The targets of probes: an interpreter, an image, or an environment built for a framework."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tarmac.checks.frameworks import PROVISIONED, Framework
from tarmac.environments import (
    CondaSpec,
    activated,
    build_venv,
    existing_prefix,
    find_engine,
)
from tarmac.errors import RequestError, unknown_name


@dataclasses.dataclass(frozen=True)
class Target:
    """An interpreter or a container image that probes run in.

    Attributes:
        name: Name of the target in reports.
        command: Command that runs a Python program there, such as ``("/opt/tf/bin/python",)``; the
            container engine for an image.
        image: Name of the container image; None outside of a container.
        variables: Environment variables to add to this process's there.
    """

    name: str
    command: tuple[str, ...]
    image: str | None = None
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)


THIS_PYTHON = Target("this Python", (sys.executable,))


_PINS = Path(__file__).with_name("environments")


def python_target(path: str | Path) -> Target:
    """Return another interpreter as a target.

    Raises:
        RequestError: The interpreter does not exist or does not start, or is older than Python 3.7.
    """
    program = shutil.which(str(path))
    if program is None:
        raise RequestError(
            f"--python {path} is not a program that can be run",
            hint="Name an interpreter, e.g. /opt/venv/bin/python",
        )
    try:
        done = subprocess.run(
            [program, "-I", "-c", "import sys; print(sys.version_info >= (3, 7))"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequestError(f"--python {path} does not start: {error}") from error
    if done.stdout.strip() != "True":
        raise RequestError(f"--python {path} is not Python 3.7 or newer")
    return Target(str(path), (program,))


# Suffixes of environment files, which no environment's name has.
_FILES = (".yml", ".yaml", ".txt", ".lock")


def conda_target(name: str) -> Target:
    """Return a conda environment as a target; build it where a file describes it.

    Args:
        name: Name or directory of an existing environment, or a file such as ``environment.yml``.

    Raises:
        RequestError: The environment does not exist, or has no Python of at least 3.7.
        TarmacError: The environment could not be built.
    """
    if Path(name).is_file() or Path(name).suffix in _FILES:
        prefix = build_venv(CondaSpec(file=name), Path())
    elif "/" in name:
        prefix = existing_prefix(CondaSpec(prefix=name), Path())
    else:
        prefix = existing_prefix(CondaSpec(name=name), Path())
    python = prefix / "bin" / "python"
    if not python.exists():
        raise RequestError(f"--conda {name}: there is no Python in {prefix}")
    target = python_target(python)
    return dataclasses.replace(target, name=name, variables=activated(prefix, os.environ))


def container_target(image: str) -> Target:
    """Return a container image as a target, under Docker or Podman.

    Raises:
        RequestError: No container engine is installed, or it does not answer.
    """
    return Target(image, (find_engine(None),), image)


def provisioned_target(framework: Framework) -> Target:
    """Build an environment of pinned versions for a framework, once, and return it as a target.

    Raises:
        RequestError: Tarmac has no pinned versions for this framework.
        TarmacError: The environment could not be built; the message has the installer's error.
    """
    if framework.pins is None:
        raise unknown_name("environment", framework.name, dict.fromkeys(PROVISIONED, ""))
    path = build_venv(framework.pins, _PINS)
    return Target(f"tarmac's {framework.name} environment", (str(path / "bin/python"),))


def refuse_unknown_devices(devices: Iterable[str]) -> None:
    """Refuse names of devices that no probe knows.

    Raises:
        RequestError: A name is none of ``cpu``, ``cuda`` and ``cuda:INDEX``.
    """
    for device in devices:
        if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
            raise RequestError(f"device is {device!r}, expected cpu, cuda or cuda:INDEX")

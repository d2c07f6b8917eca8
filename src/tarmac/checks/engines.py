"""The container engines of a host, and their options that give GPUs to a container.

Example:
    >>> run_with_gpus(Engines(docker="28.2.2")), run_with_gpus(Engines(podman="4.9.3"))
    ('docker run --gpus all', 'podman run --device nvidia.com/gpu=all')
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tarmac.files import parse_json

_LIMIT_S = 3.0

# Folders of device descriptions, by the Container Device Interface:
# https://github.com/cncf-tags/container-device-interface.
_CDI_FOLDERS = ("etc/cdi", "var/run/cdi")

# From this major version on, Docker uses CDI for GPUs
# (https://docs.docker.com/engine/release-notes/29/).
_CDI_SINCE = 29

_BY_CDI = "--device nvidia.com/gpu=all"


class Engines(BaseModel):
    """The container engines of a machine.

    Attributes:
        docker: Version of the Docker engine that answers; None where none does.
        podman: Version of Podman; None where it is not installed.
        runtimes: Names of Docker's runtimes; includes ``nvidia`` once Docker is set up for GPUs.
        cdi: Paths of the CDI files that describe NVIDIA's devices.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    docker: str | None = None
    podman: str | None = None
    runtimes: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()


def read_engines(root: Path = Path("/")) -> Engines:
    """Read the versions and the GPU setup of this machine's engines.

    Args:
        root: Directory that has ``etc`` and ``var``; for tests. Default: ``/``.
    """
    try:
        facts = parse_json(_output("docker", "info", "--format", "{{json .}}"))
    except ValueError:
        facts = {}
    podman = re.search(r"\d+(?:\.\d+)+", _output("podman", "--version"))
    return Engines(
        docker=facts.get("ServerVersion") or None,
        podman=podman[0] if podman else None,
        runtimes=tuple(sorted(facts.get("Runtimes") or ())),
        cdi=tuple(_cdi_files(root)),
    )


def _output(program: str, *arguments: str) -> str:
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run(
            [path, *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _cdi_files(root: Path) -> list[str]:
    files = []
    for folder in _CDI_FOLDERS:
        for path in sorted((root / folder).glob("*")):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if path.suffix in {".yaml", ".json"} and "nvidia.com/" in text:
                files.append("/" + str(path.relative_to(root)))
    return files


def run_with_gpus(engines: Engines, kind: str | None = None) -> str:
    """Return the beginning of the command that starts a container with all GPUs.

    Args:
        engines: Container engines of this host; all fields are empty in a container.
        kind: Kind of the container that the check runs in; None outside of one.
    """
    if kind == "podman" or (engines.podman is not None and engines.docker is None):
        return f"podman run {_BY_CDI}"
    major = re.match(r"\d+", engines.docker or "")
    is_new = major is not None and int(major[0]) >= _CDI_SINCE
    return f"docker run {_BY_CDI if is_new else '--gpus all'}"

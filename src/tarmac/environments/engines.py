"""Container engines: whether Docker or Podman is here, and answers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tarmac.errors import RequestError

__all__ = ["engine_program", "find_engine", "is_podman"]


def engine_program(name: str | None) -> str:
    """Return the path of an engine's program, without asking whether the engine answers.

    Args:
        name: ``docker`` or ``podman``; by default the first that is installed.

    Raises:
        RequestError: It is not installed.
    """
    names = (name,) if name is not None else ("docker", "podman")
    program = next((path for each in names if (path := shutil.which(each)) is not None), None)
    if program is None:
        missing = f"{name} is not" if name else "neither docker nor podman is"
        package = "podman" if name == "podman" else "docker.io"
        raise RequestError(f"{missing} here", hint=f"sudo apt install {package}")
    return program


def find_engine(name: str | None, *, limit_s: float = 60.0) -> str:
    """Return the path of an engine's program, once the engine has answered.

    Args:
        name: ``docker`` or ``podman``; by default the first that is installed.
        limit_s: How long it may take to answer, in seconds.

    Raises:
        RequestError: It is not installed, or does not answer; its own words are in the message.
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
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise RequestError(f"{program} does not answer: {said}", hint=hint)
    return program


def is_podman(engine: str) -> bool:
    """Whether an engine's program is Podman's."""
    return Path(engine).name.startswith("podman")

"""Installs packages into new virtual environments: by uv where it is here, else by pip."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError
from tarmac.files import scratch_directory, without_password

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.environments.requirements import Requirements

__all__ = ["find_python", "install_venv", "python_version", "requirement_files"]

_BUILD_S = 3600
_ANSWER_S = 60

# Without the current directory in the way, whose modules may hide the library's. `-P`, of 3.11, is
# unknown to older interpreters.
_ALONE = ("-I",)


def find_python(wanted: str | None) -> str:
    """Return an interpreter's path.

    Args:
        wanted: A version, ``3.11``, or a path; by default the interpreter that runs this.

    Raises:
        RequestError: There is none.
    """
    if wanted is None:
        return sys.executable
    names = (wanted, f"python{wanted}")
    found = next((path for name in names if (path := shutil.which(name)) is not None), None)
    if found is None:
        raise RequestError(
            f"environment: Python {wanted} is not here",
            hint="Install it, name an interpreter's path, or leave python out",
        )
    return found


def python_version(python: str) -> str:
    """Return what an interpreter says of itself.

    Raises:
        RequestError: It cannot be started, or is none.
    """
    command = [python, *_ALONE, "-c", "import sys; print(sys.version)"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(f"environment: {python} does not answer in {_ANSWER_S} s") from error
    except OSError as error:
        raise RequestError(f"environment: {python}: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise RequestError(
            f"environment: {python} is no Python that works: {said}",
            hint="Name another interpreter, or leave python out",
        )
    return done.stdout


def install_venv(
    path: Path,
    python: str,
    steps: Sequence[Sequence[str]],
    variables: Mapping[str, str] | None = None,
) -> None:
    """Make a virtual environment and install packages into it, by uv where it is here, else by pip.

    Args:
        path: Where; must not be there yet.
        python: The interpreter.
        steps: Arguments for the installer, one call after another.
        variables: For builds.

    Raises:
        TarmacError: It could not be built; the installer's own words are in the message.
    """
    uv = shutil.which("uv")
    target = str(path / "bin" / "python")
    own = dict(variables or {})
    if uv is not None:
        own |= _without_cache(uv)
        _run([uv, "venv", "--quiet", "--python", python, str(path)], own)
        install = [uv, "pip", "install", "--quiet", "--python", target]
    else:
        _run([python, *_ALONE, "-m", "venv", str(path)], {})
        pip = ("pip", "install", "--quiet", "--disable-pip-version-check")
        install = [target, *_ALONE, "-m", *pip]
    # Builds look for tools that an earlier step has installed.
    search = f"{path / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    for step in steps:
        _run([*install, *step], {**own, "PATH": search})


@contextlib.contextmanager
def requirement_files(requirements: Requirements) -> Iterator[list[str]]:
    """Write requirements into files, and give the installer's arguments for them."""
    with scratch_directory() as directory:
        arguments = []
        for option, lines in (("-r", requirements.lines), ("-c", requirements.constraints)):
            if lines:
                path = directory / f"{option[1]}.txt"
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
                arguments += [option, str(path)]
        yield arguments


def _without_cache(uv: str) -> dict[str, str]:
    """Return what tells uv to do without its cache where it cannot write there; pip does so."""
    command = [uv, "cache", "dir"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TarmacError(f"{shlex.join(command)} does not answer in {_ANSWER_S} s") from error
    cache = Path(done.stdout.strip())
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        if os.access(cache, os.W_OK):
            return {}
    return {"UV_NO_CACHE": "1"}


def _run(command: Sequence[str], variables: Mapping[str, str]) -> None:
    own = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONHOME")}
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_BUILD_S,
            env={**own, **variables},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TarmacError(f"the environment was not built within {_BUILD_S} s") from error
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if line.strip()][-8:]
        raise TarmacError(
            "the environment could not be built", hint=without_password("\n".join(said))
        )

"""Install packages into new virtual environments, with uv if it is installed, else with pip."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.specifiers import SpecifierSet

from tarmac.environments.requirements import Requirements
from tarmac.errors import RequestError, TarmacError
from tarmac.files import scratch_directory, without_password

_BUILD_S = 3600
_ANSWER_S = 60
_GET_UV = "pip install uv, or https://docs.astral.sh/uv/"

# Isolated mode, as modules in the current directory could shadow the standard library. `-P`, of
# 3.11, is unknown to older interpreters.
_ALONE = ("-I",)


def find_python(wanted: str | None) -> str:
    """Return the path of a Python interpreter.

    Args:
        wanted: Version, such as ``3.11``, or path. None: the interpreter that runs Tarmac.

    Raises:
        RequestError: The interpreter does not exist.
    """
    if wanted is None:
        return sys.executable
    names = (wanted, f"python{wanted}")
    interpreter = next((path for name in names if (path := shutil.which(name)) is not None), None)
    if interpreter is None:
        raise RequestError(
            f"environment: Python {wanted} is not here",
            hint="Install it, name an interpreter's path, or leave python out",
        )
    # Installers run in other directories.
    return str(Path(interpreter).absolute())


def python_version(python: str) -> str:
    """Return an interpreter's ``sys.version``.

    Raises:
        RequestError: The interpreter cannot be started, or is no working Python.
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
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        # A pyenv shim lists the available versions on several lines.
        in_a_line = " ".join(" ".join(lines).split())[:400]
        reason = lines[-1] if "Traceback" in done.stderr else in_a_line
        raise RequestError(
            f"environment: {python} is not a working Python: {reason}",
            hint="Name another interpreter, or leave python out",
        )
    return done.stdout


def install_venv(
    path: Path,
    python: str,
    steps: Sequence[Sequence[str]],
    variables: Mapping[str, str] | None = None,
) -> None:
    """Create a virtual environment and install packages into it, with uv or pip.

    Args:
        path: Directory of the new environment, which must not exist.
        python: Path of the interpreter for the environment.
        steps: Arguments of each call of the installer, in order.
        variables: Environment variables for the installer and its builds. Default: none.

    Raises:
        TarmacError: The build failed. The message contains the installer's error.
    """
    uv = shutil.which("uv")
    target = str(path / "bin" / "python")
    own = dict(variables or {})
    if uv is not None:
        own |= _without_cache(uv)
        run_installer([uv, "venv", "--quiet", "--python", python, str(path)], path.parent, own)
        install = [uv, "pip", "install", "--quiet", "--python", target]
    else:
        run_installer([python, *_ALONE, "-m", "venv", str(path)], path.parent)
        pip = ("pip", "install", "--quiet", "--disable-pip-version-check")
        install = [target, *_ALONE, "-m", *pip]
    # Builds need the tools that an earlier step has installed.
    search = f"{path / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    for step in steps:
        run_installer([*install, *step], path.parent, {**own, "PATH": search})


def find_project_python(directory: Path, wanted: str | None) -> str:
    """Return the path of the interpreter for a project's environment.

    Args:
        directory: Directory of the project, where ``pyproject.toml`` is.
        wanted: Version or path, as for `find_python`. None: the first that uv finds for the
            project.

    Raises:
        RequestError: There is no such interpreter, or uv is not installed.
    """
    uv = _project_uv()
    return find_python(wanted) if wanted is not None else _fitting_python(uv, directory, ())


def find_fitting_python(versions: str, script: Path) -> str | None:
    """Return the path of an interpreter for a script; None if the current interpreter fits.

    Args:
        versions: Accepted versions of Python, such as ``>=3.12``.
        script: Path of the script. uv searches from its directory.

    Raises:
        RequestError: There is no such interpreter, or uv is not installed.
    """
    own = ".".join(map(str, sys.version_info[:3]))
    if SpecifierSet(versions).contains(own, prereleases=True):
        return None
    return _fitting_python(_project_uv(), script, (versions,))


def _project_uv() -> str:
    uv = shutil.which("uv")
    if uv is None:
        raise RequestError("environment: projects are built by uv, which is not here", hint=_GET_UV)
    return uv


def _fitting_python(uv: str, place: Path, versions: Sequence[str]) -> str:
    command = [uv, "python", "find", "--no-python-downloads", *versions]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            env=_own_variables(),
            cwd=place if place.is_dir() else place.parent,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TarmacError(f"{shlex.join(command)} does not answer in {_ANSWER_S} s") from error
    if done.returncode != 0:
        # uv wraps its messages as for a terminal.
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise RequestError(
            f"environment: {place}: {reason.removeprefix('error: ')}",
            hint="Install one: uv python install VERSION",
        )
    return done.stdout.strip()


def install_project(
    path: Path,
    python: str,
    directory: Path,
    *,
    extras: Sequence[str],
    groups: Sequence[str],
    is_locked: bool,
) -> None:
    """Build a project's virtual environment with uv; the project's own code is linked.

    Args:
        path: Directory of the new environment. Replaces an existing one.
        python: Path of the interpreter for the environment.
        directory: Directory of the project, where ``pyproject.toml`` is.
        extras: Optional dependencies to install too.
        groups: Groups of dependencies to install too.
        is_locked: Whether to install the packages of ``uv.lock``, else those of ``pyproject.toml``.

    Raises:
        TarmacError: The build failed. The message contains uv's error.
    """
    uv = _project_uv()
    own = _without_cache(uv) | {"UV_PROJECT_ENVIRONMENT": str(path)}
    shutil.rmtree(path, ignore_errors=True)
    if is_locked:
        names = [part for name in extras for part in ("--extra", name)]
        names += [part for name in groups for part in ("--group", name)]
        sync = [uv, "sync", "--quiet", "--frozen", "--project", str(directory)]
        run_installer([*sync, "--python", python, *names], directory, own)
        return
    file = directory / "pyproject.toml"
    run_installer([uv, "venv", "--quiet", "--python", python, str(path)], directory, own)
    install = [uv, "pip", "install", "--quiet", "--python", str(path / "bin" / "python")]
    words = [part for name in groups for part in ("--group", f"{file}:{name}")]
    if "build-system" in tomllib.loads(file.read_text(encoding="utf-8")):
        linked = f"{directory}[{','.join(extras)}]" if extras else str(directory)
        run_installer([*install, *words, "--editable", linked], directory, own)
        return
    words += [part for name in extras for part in ("--extra", name)]
    run_installer([*install, "--requirements", str(file), *words], directory, own)


def install_script(path: Path, python: str, script: Path, *, is_locked: bool) -> None:
    """Build a virtual environment with uv from the dependencies in a script's comment.

    Args:
        path: Directory of the new environment. Replaces an existing one.
        python: Path of the interpreter for the environment.
        script: Python file with a ``# /// script`` comment.
        is_locked: Whether to install the packages of the lock beside the script.

    Raises:
        RequestError: uv is not installed.
        TarmacError: The build failed. The message contains uv's error.
    """
    uv = _project_uv()
    shutil.rmtree(path, ignore_errors=True)
    sync = [uv, "sync", "--quiet", "--script", str(script), "--active", "--python", python]
    own = _without_cache(uv) | {"VIRTUAL_ENV": str(path)}
    run_installer([*sync, *(["--frozen"] if is_locked else [])], path.parent, own)


def install_into(path: Path, words: Sequence[str]) -> None:
    """Install packages into a conda environment, with uv if it is installed, else with its pip.

    Args:
        path: Directory of the environment, which must contain Python.
        words: Arguments for the installer.

    Raises:
        TarmacError: The installation failed. The message contains the installer's error.
    """
    uv, python = shutil.which("uv"), str(path / "bin" / "python")
    if uv is None:
        run_installer([python, *_ALONE, "-m", "pip", "install", "--quiet", *words], path.parent)
        return
    install = [uv, "pip", "install", "--quiet", "--python", python, "--break-system-packages"]
    run_installer([*install, *words], path.parent, _without_cache(uv))


@contextlib.contextmanager
def requirement_files(requirements: Requirements) -> Iterator[list[str]]:
    """Write requirements to temporary files, and yield the installer's arguments for them."""
    with scratch_directory() as directory:
        arguments = []
        for option, lines in (("-r", requirements.lines), ("-c", requirements.constraints)):
            if lines:
                path = directory / f"{option[1]}.txt"
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
                arguments += [option, str(path)]
        yield arguments


def _without_cache(uv: str) -> dict[str, str]:
    """Return the variable that disables uv's cache if it is not writable, as pip does by itself."""
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


def _own_variables() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONHOME")}


def run_installer(
    command: Sequence[str], directory: Path, variables: Mapping[str, str] | None = None
) -> None:
    """Run an installer, and wait until it ends.

    Args:
        command: Program of the installer, followed by its arguments.
        directory: Working directory. uv reads the settings of the project in it, so it must belong
            to the environment's project, or to no project.
        variables: Environment variables to add to those of this process. Default: none.

    Raises:
        TarmacError: The installer fails or runs longer than an hour. The message contains its
            error.
    """
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_BUILD_S,
            env={**_own_variables(), **(variables or {})},
            cwd=directory,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TarmacError(f"the environment was not built within {_BUILD_S} s") from error
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if line.strip()][-8:]
        raise TarmacError(
            "the environment could not be built", hint=without_password("\n".join(lines))
        )

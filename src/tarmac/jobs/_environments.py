"""Virtual environments of pinned packages, built once and kept by their content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from filelock import FileLock

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.jobs._job import Venv

__all__ = [
    "build_environment",
    "build_venv",
    "environments_directory",
    "list_venvs",
    "remove_venv",
]

_BUILD_S = 3600


def environments_directory() -> Path:
    """Return where built environments are kept."""
    return Path(platformdirs.user_cache_dir("tarmac")) / "venvs"


def build_venv(venv: Venv, base: Path, root: Path | None = None) -> Path:
    """Build an environment, or find the one that was built before.

    Two processes that want the same one build it once.

    Args:
        venv: Its interpreter and packages.
        base: What ``-r FILE`` starts from.
        root: Where environments are kept; by default `environments_directory`.

    Returns:
        Its directory.

    Raises:
        RequestError: The interpreter or a requirements file is not here.
        TarmacError: It could not be built; the installer's own words are in the message.
    """
    root = root or environments_directory()
    python = _interpreter(venv.python)
    before, lines = [*_lines(venv.before, base)], [*_lines(venv.requirements, base)]
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version)"], capture_output=True, text=True, check=True
    ).stdout
    content = repr((version, before, lines, sorted(venv.build_env.items())))
    path = root / hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f"{path.name}.lock"):
        if not (path / "requirements.txt").exists():
            shutil.rmtree(path, ignore_errors=True)
            options = (
                *(("--no-build-isolation",) if before else ()),
                *(("--no-cache-dir",) if venv.build_env else ()),
            )
            with _listed(before) as first, _listed(lines) as then:
                steps = [("-r", first)] if before else []
                steps.append((*options, "-r", then))
                build_environment(path, python, steps, venv.build_env)
            text = "\n".join((*before, *lines)) + "\n"
            (path / "requirements.txt").write_text(text, encoding="utf-8")
    return path


@contextlib.contextmanager
def _listed(lines: Sequence[str]) -> Iterator[str]:
    """Give the name of a file of requirements."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines))
        file.flush()
        yield file.name


def list_venvs(root: Path | None = None) -> list[tuple[Path, str]]:
    """Return the environments that are there, each with its requirements."""
    root = root or environments_directory()
    found = sorted(root.glob("*/requirements.txt"))
    return [(path.parent, path.read_text(encoding="utf-8").strip()) for path in found]


def remove_venv(name: str, root: Path | None = None) -> Path:
    """Remove an environment by the beginning of its name.

    Raises:
        RequestError: There is none, or several begin so.
    """
    root = root or environments_directory()
    found = [path for path, _ in list_venvs(root) if path.name.startswith(name)]
    if len(found) != 1:
        problem = "no environment begins" if not found else f"{len(found)} environments begin"
        raise RequestError(f"{problem} with {name!r}", hint="See them: tarmac env list")
    with FileLock(root / f"{found[0].name}.lock"):
        shutil.rmtree(found[0])
    return found[0]


def _interpreter(wanted: str | None) -> str:
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


def _lines(requirements: Sequence[str], base: Path) -> list[str]:
    """Return what pip takes, with requirements files written out, so that their content counts."""
    lines = []
    for requirement in requirements:
        if requirement.startswith("-r "):
            path = base / requirement.removeprefix("-r ").strip()
            try:
                lines += path.read_text(encoding="utf-8").splitlines()
            except OSError as error:
                raise RequestError(f"environment: {path}: {error.strerror}") from error
        else:
            lines.append(requirement)
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def build_environment(
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
    if uv is not None:
        _run([uv, "venv", "--quiet", "--python", python, str(path)], {})
        install = [uv, "pip", "install", "--quiet", "--python", target]
    else:
        _run([python, "-m", "venv", str(path)], {})
        install = [target, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Builds look for tools that an earlier step has installed.
    search = f"{path / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    for step in steps:
        _run([*install, *step], {**(variables or {}), "PATH": search})


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
        raise TarmacError("the environment could not be built", hint="\n".join(said))

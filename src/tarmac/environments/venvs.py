"""Virtual environments of pinned packages, built once and kept by their content."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
import psutil
from filelock import FileLock

from tarmac.environments.requirements import read_requirements
from tarmac.errors import RequestError, TarmacError
from tarmac.files import without_password, write_json, write_text
from tarmac.processes.identity import ProcessIdentity, identify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tarmac.environments.requirements import Requirements
    from tarmac.jobs.model import Venv

__all__ = [
    "build_environment",
    "build_venv",
    "environments_directory",
    "list_venvs",
    "remove_venv",
]

_BUILD_S = 3600
_ANSWER_S = 60


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
    before = read_requirements(venv.before, base)
    then = read_requirements(venv.requirements, base)
    content = repr(
        (
            _version(python),
            "uv" if shutil.which("uv") else "pip",
            before.content(),
            then.content(),
            sorted(venv.build_env.items()),
        )
    )
    path = root / hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f"{path.name}.lock"):
        _note_user(path)
        if not (path / "requirements.txt").exists():
            shutil.rmtree(path, ignore_errors=True)
            options = (
                *(("--no-build-isolation",) if before.lines else ()),
                *(("--no-cache-dir",) if venv.build_env else ()),
            )
            with contextlib.ExitStack() as files:
                steps = [files.enter_context(_listed(before))] if before.lines else []
                steps.append([*options, *files.enter_context(_listed(then))])
                build_environment(path, python, steps, venv.build_env)
            text = "\n".join((*before.lines, *then.lines)) + "\n"
            write_text(path / "requirements.txt", without_password(text))
    return path


@contextlib.contextmanager
def _listed(requirements: Requirements) -> Iterator[list[str]]:
    """Write requirements into files, and give the installer's arguments for them."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = []
        for option, lines in (("-r", requirements.lines), ("-c", requirements.constraints)):
            if lines:
                path = Path(directory) / f"{option[1]}.txt"
                path.write_text("\n".join(lines) + "\n", encoding="utf-8")
                arguments += [option, str(path)]
        yield arguments


def _users(path: Path) -> Path:
    """Return the directory of the notes of processes that use an environment."""
    return path.with_name(f"{path.name}.users")


def _note_user(path: Path) -> None:
    """Note that this process uses an environment, for as long as it lives."""
    me = identify(os.getpid())
    write_json(_users(path) / f"{me.host}-{me.pid}-{me.start_ticks}.json", dataclasses.asdict(me))


def _living_users(path: Path) -> list[str]:
    """Return the processes that use an environment; forget those that have ended.

    Of a process of another machine nothing is known here: it counts as one that uses it.
    """
    living: list[str] = []
    here = socket.gethostname()
    for note in sorted(_users(path).glob("*.json")):
        try:
            user = ProcessIdentity(**json.loads(note.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue
        if user.host != here:
            living.append(f"process {user.pid} on {user.host} (if that has ended, remove {note})")
        elif user.is_alive():
            living.append(f"process {user.pid}")
        else:
            note.unlink(missing_ok=True)
    # A task outlives who built its environment, where they are two processes.
    living.extend(
        f"process {process.info['pid']}"
        for process in psutil.process_iter(["pid", "environ"])
        if (process.info["environ"] or {}).get("VIRTUAL_ENV") == str(path)
    )
    return [*dict.fromkeys(living)]


def list_venvs(root: Path | None = None) -> list[tuple[Path, str]]:
    """Return the environments that are there, each with its requirements."""
    root = root or environments_directory()
    found = sorted(root.glob("*/requirements.txt"))
    return [(path.parent, path.read_text(encoding="utf-8").strip()) for path in found]


def remove_venv(name: str, root: Path | None = None) -> Path:
    """Remove an environment by the beginning of its name.

    Raises:
        RequestError: There is none, several begin so, or a process uses it.
    """
    root = root or environments_directory()
    found = [path for path, _ in list_venvs(root) if path.name.startswith(name)]
    if len(found) != 1:
        problem = "no environment begins" if not found else f"{len(found)} environments begin"
        raise RequestError(f"{problem} with {name!r}", hint="See them: tarmac env list")
    with FileLock(root / f"{found[0].name}.lock"):
        if users := _living_users(found[0]):
            raise RequestError(
                f"environment {found[0].name} is in use by {', '.join(users)}",
                hint="See the jobs at work: tarmac ps",
            )
        shutil.rmtree(found[0])
        shutil.rmtree(_users(found[0]), ignore_errors=True)
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


def _version(python: str) -> str:
    """Return what an interpreter says of itself.

    Raises:
        RequestError: It cannot be started, or is none.
    """
    command = [python, "-c", "import sys; print(sys.version)"]
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
        raise TarmacError(
            "the environment could not be built", hint=without_password("\n".join(said))
        )

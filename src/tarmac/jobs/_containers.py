"""Docker and Podman: which is here, what runs a task in a container, images behind a login."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.jobs._job import Container
    from tarmac.jobs._plan import Task
    from tarmac.jobs.executors._base import Grant

__all__ = ["LABEL", "WORK", "container_command", "find_engine", "pull_with_login"]

LABEL = "tarmac.run"

# Where a task's directory is inside.
WORK = "/tarmac"

_ANSWER_S = 60

_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of its own is made there


def find_engine(wanted: str | None) -> str:
    """Return the program of an engine that answers.

    Args:
        wanted: ``docker`` or ``podman``; by default the first that is here.

    Raises:
        RequestError: None is here, or it does not answer; its own words are in the message.
    """
    names = (wanted,) if wanted is not None else ("docker", "podman")
    found = next((path for name in names if (path := shutil.which(name)) is not None), None)
    if found is None:
        missing = f"{wanted} is not" if wanted else "neither docker nor podman is"
        raise RequestError(f"{missing} here", hint="sudo apt install docker.io")
    try:
        done = subprocess.run(
            [found, "version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(f"{found} does not answer within {_ANSWER_S} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise RequestError(f"{found} does not answer: {said}", hint="sudo systemctl start docker")
    return found


def container_command(
    task: Task,
    container: Container,
    grant: Grant,
    *,
    engine: str,
    name: str,
    mark: str,
    work: Path,
    variables: Mapping[str, str],
    secret_names: Sequence[str],
) -> tuple[str, ...]:
    """Return the command line that runs a task in a container.

    Args:
        task: Which.
        container: What it asks for.
        grant: What it has.
        engine: The engine's program.
        name: The container's.
        mark: Of the run, by which a guardian finds it.
        work: The task's directory, which is `WORK` inside.
        variables: What it sees.
        secret_names: Variables whose values the engine takes from its own environment, so that they
            are in no list of processes.
    """
    options = ["--rm", "--name", name, "--label", f"{LABEL}={mark}", "--init"]
    # Only `pull_with_login` can pull what asks for a login.
    pull = container.pull if container.login is None else "never"
    options += ["--pull", pull, "--volume", f"{work}:{WORK}"]
    if container.workdir != "":
        options += ["--workdir", container.workdir or WORK]
    if not task.resources.shares_cpus:
        options += ["--cpus", f"{grant.cpus:g}"]
    if grant.memory:
        options += ["--memory", str(grant.memory)]
    if task.resources.shm is not None:
        options += ["--shm-size", str(task.resources.shm)]
    if grant.gpus:
        # The inner quotes are the engine's: without them it takes the comma for an option's.
        options += ["--gpus", f'"device={",".join(grant.gpus)}"']
    for mount in container.mounts:
        mode = ":ro" if mount.read_only else ""
        options += ["--volume", f"{mount.source}:{mount.target}{mode}"]
    options += _settings_of(container)
    for key, value in variables.items():
        options += ["--env", f"{key}={value}"]
    for key in secret_names:
        options += ["--env", key]
    command = list(task.command)
    if container.entrypoint is not None:
        first, *rest = container.entrypoint
        options += ["--entrypoint", first]
        command = [*rest, *command]
    return (engine, "run", *options, container.image, *command)


def _settings_of(container: Container) -> list[str]:
    given = {
        "--user": container.user,
        "--network": container.network,
        "--ipc": container.ipc,
    }
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    return options + [part for limit in container.ulimits for part in ("--ulimit", limit)]


def pull_with_login(engine: str, container: Container, credentials: str) -> None:
    """Pull an image from a registry that asks who one is.

    The engine keeps credentials in a file. It gets a directory of its own for that, in memory where
    there is one, which is gone when this returns; the user's own login stays as it is.

    Args:
        engine: The engine's program.
        container: Whose image; nothing is pulled where its policy does not ask for it.
        credentials: ``USER:PASSWORD``.

    Raises:
        TarmacError: The registry does not take them, or has no such image; the engine's own words
            are in the message.
    """
    user, separator, password = credentials.partition(":")
    if not separator:
        raise TarmacError("container: the secret of login is not of the form USER:PASSWORD")
    if container.pull == "never" or (container.pull == "missing" and _has(engine, container.image)):
        return
    first = container.image.split("/", maxsplit=1)[0]
    registry = [first] if "." in first or ":" in first or first == "localhost" else []
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        environment = _endpoint(engine) | {
            "DOCKER_CONFIG": directory,
            "REGISTRY_AUTH_FILE": str(Path(directory) / "auth.json"),
        }
        login = ("login", "--username", user, "--password-stdin", *registry)
        place = registry[0] if registry else "Docker Hub"
        _ask(engine, login, environment, f"login to {place}", password)
        _ask(engine, ("pull", "--quiet", container.image), environment, f"pull {container.image}")


def _has(engine: str, image: str) -> bool:
    command = [engine, "image", "inspect", image]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _endpoint(engine: str) -> dict[str, str]:
    """Return what names the engine in use, which another configuration directory would not know."""
    if "DOCKER_HOST" in os.environ:
        return {}
    form = "{{.Endpoints.docker.Host}}"
    command = [engine, "context", "inspect", "--format", form]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return {"DOCKER_HOST": done.stdout.strip()} if done.returncode == 0 else {}


def _ask(
    engine: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    what: str,
    given: str | None = None,
) -> None:
    done = subprocess.run(
        [engine, *arguments],
        input=given,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise TarmacError(f"container: {what}: {said}")

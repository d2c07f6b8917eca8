"""Command lines of Docker and Podman for tasks that run in containers."""

from __future__ import annotations

import functools
import shutil
import subprocess
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tarmac.jobs._job import Container
    from tarmac.jobs._machine import Grant
    from tarmac.jobs._plan import Task

__all__ = ["LABEL", "WORK", "container_command", "find_engine", "log_in"]

LABEL = "tarmac.run"

# Where a task's directory is inside.
WORK = "/tarmac"

_ANSWER_S = 60


@functools.cache
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
        raise RequestError(
            f"container: {' and '.join(names)} {'is' if wanted else 'are'} not here",
            hint="sudo apt install docker.io",
        )
    try:
        done = subprocess.run(
            [found, "version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(f"container: {found} does not answer within {_ANSWER_S} s") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise RequestError(
            f"container: {found} does not answer: {said}", hint="sudo systemctl start docker"
        )
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
    options += ["--pull", container.pull, "--volume", f"{work}:{WORK}"]
    if container.workdir != "":
        options += ["--workdir", container.workdir or WORK]
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
    if container.user is not None:
        options += ["--user", container.user]
    if container.network is not None:
        options += ["--network", container.network]
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


def log_in(engine: str, image: str, credentials: str) -> None:
    """Log in to an image's registry.

    Args:
        engine: The engine's program.
        image: Its first part is the registry, where it looks like a host.
        credentials: ``USER:PASSWORD``.

    Raises:
        TarmacError: The registry does not take them; the engine's own words are in the message.
    """
    user, separator, password = credentials.partition(":")
    if not separator:
        raise TarmacError("container: the secret of login is not of the form USER:PASSWORD")
    first = image.split("/", maxsplit=1)[0]
    registry = [first] if "." in first or ":" in first or first == "localhost" else []
    done = subprocess.run(
        [engine, "login", "--username", user, "--password-stdin", *registry],
        input=password,
        capture_output=True,
        text=True,
        timeout=_ANSWER_S,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise TarmacError(
            f"container: login to {registry[0] if registry else 'Docker Hub'}: {said}"
        )

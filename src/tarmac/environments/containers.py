"""Docker and Podman: which is here, what runs a task in a container, images behind a login."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from tarmac.errors import RequestError, TarmacError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.jobs.executors.interface import Grant
    from tarmac.jobs.model import Container
    from tarmac.jobs.plan import Task

__all__ = ["LABEL", "WORK", "container_command", "find_engine", "pull_with_login"]

LABEL = "tarmac.run"

# Where a task's directory is inside.
WORK = "/tarmac"

_ANSWER_S = 60

# Images of frameworks are 10 GB and more.
_PULL_S = 3600

# The names under which Docker and Podman keep credentials of Docker Hub.
_DOCKER_HUB = ["https://index.docker.io/v1/", "docker.io"]

# See https://docs.docker.com/reference/cli/docker/login/#credential-helper-protocol
_KEEPER = "tarmac"
_KEPT = "TARMAC_REGISTRY_LOGIN"
_KEEPER_SCRIPT = f"""#!/bin/sh
case $1 in
  get) printf '%s' "${_KEPT}" ;;
  list) printf '{{}}' ;;
  *) while read -r _; do :; done ;;
esac
"""


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
        package = "podman" if wanted == "podman" else "docker.io"
        raise RequestError(f"{missing} here", hint=f"sudo apt install {package}")
    hint = f"{found} info" if _is_podman(found) else "sudo systemctl start docker"
    try:
        done = subprocess.run(
            [found, "version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(f"{found} does not answer within {_ANSWER_S} s", hint=hint) from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise RequestError(f"{found} does not answer: {said}", hint=hint)
    return found


def _is_podman(engine: str) -> bool:
    return Path(engine).name.startswith("podman")


def container_command(
    task: Task,
    container: Container,
    grant: Grant,
    *,
    engine: str,
    name: str,
    mark: str,
    work: Path,
    base: Path,
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
        base: What relative sources of mounts start from: the job file's directory.
        variables: What it sees.
        secret_names: Variables whose values the engine takes from its own environment, so that they
            are in no list of processes.
    """
    options = ["--rm", "--name", name, "--label", f"{LABEL}={mark}", "--init"]
    # Only `pull_with_login` can pull what asks for a login.
    pull = container.pull if container.login is None else "never"
    options += ["--pull", pull, "--mount", _mount(work, WORK)]
    if container.workdir != "":
        options += ["--workdir", container.workdir or WORK]
    if not task.resources.shares_cpus:
        options += ["--cpus", f"{grant.cpus:g}"]
    if grant.memory:
        options += ["--memory", str(grant.memory)]
    if task.resources.shm is not None:
        options += ["--shm-size", str(task.resources.shm)]
    if grant.gpus and _is_podman(engine):
        # By the Container Device Interface, as nvidia-ctk describes the GPUs to it.
        for uuid in grant.gpus:
            options += ["--device", f"nvidia.com/gpu={uuid}"]
    elif grant.gpus:
        # The inner quotes are the engine's: without them it takes the comma for an option's.
        options += ["--gpus", f'"device={",".join(grant.gpus)}"']
    for mount in container.mounts:
        source = base / Path(mount.source).expanduser()
        options += ["--mount", _mount(source, mount.target, read_only=mount.read_only)]
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


def _mount(source: Path, target: str, *, read_only: bool = False) -> str:
    """Return a value of ``--mount``, which both engines read as a line of CSV."""
    fields = ["type=bind", f"source={source}", f"target={target}"]
    line = io.StringIO()
    # Unlike --volume, this takes any path, and makes no directory where the source is not there.
    csv.writer(line, lineterminator="\n").writerow([*fields, *(["readonly"] if read_only else [])])
    return line.getvalue().removesuffix("\n")


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

    The engine keeps credentials where its configuration says. For this it gets one of its own,
    which names a program as the keeper: that forgets what it is told, and answers from a variable
    of the engine's process. So no file has them, also when this process is killed in the middle;
    the user's own login stays as it is.

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
    is_named = "." in first or ":" in first or first == "localhost"
    registry = [first] if is_named else []
    with tempfile.TemporaryDirectory(dir=_executable_directory()) as directory:
        keeper = Path(directory) / f"docker-credential-{_KEEPER}"
        keeper.write_text(_KEEPER_SCRIPT, encoding="utf-8")
        keeper.chmod(0o700)
        names = registry or _DOCKER_HUB
        configuration = json.dumps({"credHelpers": dict.fromkeys(names, _KEEPER)})
        for name in ("config.json", "auth.json"):
            (Path(directory) / name).write_text(configuration, encoding="utf-8")
        answer = {"ServerURL": names[0], "Username": user, "Secret": password}
        environment = _endpoint(engine) | {
            "DOCKER_CONFIG": directory,
            "REGISTRY_AUTH_FILE": str(Path(directory) / "auth.json"),
            "PATH": f"{directory}{os.pathsep}{os.environ.get('PATH', '')}",
            _KEPT: json.dumps(answer),
        }
        login = ("login", "--username", user, "--password-stdin", *registry)
        place = registry[0] if registry else "Docker Hub"
        _ask(engine, login, environment, f"login to {place}", limit_s=_ANSWER_S, given=password)
        pull = ("pull", "--quiet", container.image)
        _ask(engine, pull, environment, f"pull {container.image}", limit_s=_PULL_S)


def _executable_directory() -> str:
    """Return a directory where programs can be started, which some do not allow in /tmp."""
    places = (tempfile.gettempdir(), platformdirs.user_cache_dir("tarmac", ensure_exists=True))
    allowed = (place for place in places if not os.statvfs(place).f_flag & os.ST_NOEXEC)
    return next(allowed, places[0])


def _has(engine: str, image: str) -> bool:
    return _run([engine, "image", "inspect", image], f"look for {image}").returncode == 0


def _endpoint(engine: str) -> dict[str, str]:
    """Return what names the engine in use, which another configuration directory would not know."""
    if "DOCKER_HOST" in os.environ:
        return {}
    form = "{{.Endpoints.docker.Host}}"
    done = _run([engine, "context", "inspect", "--format", form], "say where it is")
    return {"DOCKER_HOST": done.stdout.strip()} if done.returncode == 0 else {}


def _ask(
    engine: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    what: str,
    *,
    limit_s: float,
    given: str | None = None,
) -> None:
    done = _run(
        [engine, *arguments], what, {**os.environ, **environment}, limit_s=limit_s, given=given
    )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise TarmacError(f"container: {what}: {said}")


def _run(
    command: Sequence[str],
    what: str,
    environment: Mapping[str, str] | None = None,
    *,
    limit_s: float | None = None,
    given: str | None = None,
) -> subprocess.CompletedProcess[str]:
    limit_s = limit_s or _ANSWER_S
    try:
        return subprocess.run(
            command,
            input=given,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TarmacError(
            f"container: {what}: {Path(command[0]).name} has not within {limit_s:g} s"
        ) from error

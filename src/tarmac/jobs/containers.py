"""A task's container: the engine's command line that runs it."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.environments import is_podman

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.jobs.machine import Grant
    from tarmac.jobs.model import Container
    from tarmac.jobs.plan import Task

__all__ = ["WORK", "container_command"]

# By which a guardian finds a run's containers.
_LABEL = "tarmac.run"

# Where a task's directory is inside.
WORK = "/tarmac"


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
        task: The task to run.
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
    options = ["--rm", "--name", name, "--label", f"{_LABEL}={mark}", "--init"]
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
    if grant.gpus and is_podman(engine):
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

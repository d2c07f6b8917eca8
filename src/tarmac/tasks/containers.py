"""A task's container: its engine's command line, and the detection of out-of-memory kills."""

from __future__ import annotations

import csv
import dataclasses
import io
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.environments import is_podman
from tarmac.files import expanded

if TYPE_CHECKING:
    from tarmac.tasks.machine import Grant
    from tarmac.tasks.model import Container, Resources

# Label by which a guardian finds a run's containers.
_LABEL = "tarmac.run"

# Path of the task's directory inside the container.
WORK = "/tarmac"

# After this time without an answer, the engine is assumed to know of no memory kill.
_ANSWER_WITHIN_S = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContainerRun:
    """A container to run, with its command and resources.

    Attributes:
        container: Container that the task requests.
        command: Command line of the task, run inside the container.
        resources: Resources that the task requests, such as shared memory.
        grant: Cores, memory and GPUs that the task was granted.
        name: Name of the container, unique to the attempt.
        work: Directory of the task, mounted at `WORK`.
        base: Directory that relative sources of mounts start from: the job file's directory.
        variables: Environment variables of the container, with their values.
        names: Names of further variables. The engine passes their values from its own environment,
            so that no process list shows them.
    """

    container: Container
    command: Sequence[str]
    resources: Resources
    grant: Grant
    name: str
    work: Path
    base: Path
    variables: Mapping[str, str]
    names: Sequence[str]

    def mounts(self) -> list[tuple[Path, str, bool]]:
        """Return the container's mounts: source, target, and whether the mount is read-only."""
        own = (self.work, WORK, False)
        mounts = self.container.mounts
        return [
            own,
            *((self.base / expanded(m.source), m.target, m.read_only) for m in mounts),
        ]


def container_command(run: ContainerRun, *, engine: str, mark: str) -> tuple[str, ...]:
    """Return the command line that runs a container with Docker or Podman.

    Args:
        run: Container to run, with its command, mounts and limits.
        engine: Path or name of the program, ``docker`` or ``podman``.
        mark: Mark of the run, set as a label by which a guardian finds the container.
    """
    container, grant, resources = run.container, run.grant, run.resources
    options = ["--rm", "--name", run.name, "--label", f"{_LABEL}={mark}", "--init"]
    # Only `pull_with_login` can pull an image that needs a login.
    options += ["--pull", container.pull if container.login is None else "never"]
    for mount in run.mounts():
        options += ["--mount", mount_line(*mount)]
    if container.workdir != "":
        options += ["--workdir", container.workdir or WORK]
    if not resources.shares_cpus:
        options += ["--cpus", f"{grant.cpus:g}"]
    if grant.memory:
        options += ["--memory", str(grant.memory)]
    if resources.shm is not None:
        options += ["--shm-size", str(resources.shm)]
    if grant.gpus and is_podman(engine):
        # Use the Container Device Interface, in which nvidia-ctk describes the GPUs.
        for uuid in grant.gpus:
            options += ["--device", f"nvidia.com/gpu={uuid}"]
    elif grant.gpus:
        # The inner quotes are for the engine: without them, the comma would start another option.
        options += ["--gpus", f'"device={",".join(grant.gpus)}"']
    options += _settings_of(container)
    for key, value in run.variables.items():
        options += ["--env", f"{key}={value}"]
    for key in run.names:
        options += ["--env", key]
    command = list(run.command)
    if container.entrypoint is not None:
        first, *rest = container.entrypoint
        options += ["--entrypoint", first]
        command = [*rest, *command]
    return (engine, "run", *options, container.image, *command)


def was_out_of_memory(engine: str, name: str, seconds: float) -> bool:
    """Whether the kernel killed a process of a container at the container's memory limit.

    Args:
        engine: Path or name of the engine's program. Always False for Podman, which does not report
            this.
        name: Name of the container, which may be gone.
        seconds: Upper bound of the container's age in seconds.
    """
    if is_podman(engine):
        return False
    now = time.time()
    # The engine keeps recent events for a while.
    command = [engine, "events", "--since", f"{now - seconds:.9f}", "--until", f"{now:.9f}"]
    command += ["--filter", f"container={name}", "--filter", "event=oom", "--format", "oom"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_ANSWER_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())


def mount_line(source: Path, target: str, read_only: bool) -> str:
    """Return a value of ``--mount``, which Docker, Podman and Apptainer parse as a line of CSV."""
    fields = ["type=bind", f"source={source}", f"target={target}"]
    line = io.StringIO()
    # Unlike --volume, --mount accepts any path, and creates no directory for a missing source.
    csv.writer(line, lineterminator="\n").writerow([*fields, *(["readonly"] if read_only else [])])
    return line.getvalue().removesuffix("\n")


def _settings_of(container: Container) -> list[str]:
    flags = {
        "--user": container.user,
        "--network": container.network,
        "--ipc": container.ipc,
    }
    options = [part for name, value in flags.items() if value is not None for part in (name, value)]
    return options + [part for limit in container.ulimits for part in ("--ulimit", limit)]

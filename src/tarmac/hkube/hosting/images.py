"""Preparation of a container: its image, and an address to reach its worker.

The image is fetched first, so that a slow registry does not count toward an instance's start.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator

from tarmac.environments import engine_program, is_podman
from tarmac.errors import TarmacError
from tarmac.jobs import Container, Resources, SystemEnvironment, Task

_LOOPBACK = "127.0.0.1"
_UNLESS_THERE = '"$0" image inspect "$1" >/dev/null 2>&1 || exec "$0" pull "$1"'
_GATEWAY = "{{range .IPAM.Config}}{{.Gateway}} {{end}}"

# Fetching waits for a registry and must not wait for a core; 0 cores are not allowed.
_NOTHING = Resources(cpus=1e-9, shares_cpus=True)


def fetching_task(template: Task, numbers: Iterator[int]) -> Task | None:
    """Return the task that fetches an algorithm's image.

    Args:
        template: Task planned from the algorithm's job.
        numbers: Iterator of unused task numbers in the run.

    Returns:
        The task. None if there is no image, or if the registry needs a login: the stage in of the
        instance then fetches the image.
    """
    container = template.environment
    if not isinstance(container, Container) or container.login is not None:
        return None
    engine, image = engine_program(container.engine), container.image
    command: tuple[str, ...] = ("sh", "-c", _UNLESS_THERE, engine, image)
    if container.pull == "never":
        command = (engine, "image", "inspect", "--format", "{{.Id}}", image)
    elif container.pull == "always":
        command = (engine, "pull", image)
    return dataclasses.replace(
        template,
        name=f"image of {template.name}",
        index=next(numbers),
        command=command,
        environment=SystemEnvironment(),
        resources=_NOTHING,
        env={},
        secrets={},
        inputs=(),
        outputs=(),
        timeout_s=None,
    )


def ready_to_start(template: Task, *, has_worker: bool) -> Task:
    """Return an algorithm's task for the time after its image is fetched.

    A container with a worker shares the machine's network, unless the definition names a network:
    as in HKube's pods, the worker is at 127.0.0.1. A container in a network of the engine may be
    unable to reach its host.
    """
    container = template.environment
    if not isinstance(container, Container):
        return template
    changes: dict[str, str] = {}
    if container.login is None:
        changes["pull"] = "never"
    if has_worker and container.network is None:
        changes["network"] = "host"
    return dataclasses.replace(template, environment=container.model_copy(update=changes))


async def listening_host(template: Task) -> str:
    """Return the address of this machine that an algorithm's instances can reach.

    Raises:
        TarmacError: The container's network does not reach this machine.
    """
    container = template.environment
    if not isinstance(container, Container) or container.network in (None, "host"):
        return _LOOPBACK
    network = container.network
    assert network is not None
    if network == "none":
        raise TarmacError(
            f"{template.name}: without a network its container cannot reach its worker",
            hint="Leave network out for the host's network, or name one of the engine's.",
        )
    engine = engine_program(container.engine)
    if is_podman(engine):
        raise TarmacError(
            f"{template.name}: in a Podman network a container cannot reach its worker: the "
            "worker listens before the network has a gateway",
            hint="Leave network out for the host's network.",
        )
    process = await asyncio.create_subprocess_exec(
        *(engine, "network", "inspect", "--format", _GATEWAY, network),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    addresses = output.decode(errors="replace").split()
    if process.returncode != 0 or not addresses:
        line = (errors.decode(errors="replace").strip().splitlines() or ["it has no gateway"])[-1]
        raise TarmacError(f"{template.name}: network {network}: {line}")
    return addresses[0]

"""The job inside a SkyPilot task, changed so that it runs on the opened machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tarmac.jobs import Job, Secret

# Fields of a converted job on its source and on other systems' refusals.
_APART = {"original", "refusals"}


@dataclasses.dataclass(frozen=True)
class Embedded:
    """A job as it runs on the opened machine.

    Attributes:
        value: Content of the job file, as plain values.
        secrets: Names of the variables that hold the job's secrets on the machine, each with the
            description of its secret.
    """

    value: dict[str, Any]
    secrets: dict[str, str]


def embed(job: Job) -> Embedded:
    """Return a job as a file for a single machine.

    Secrets become environment variables, which SkyPilot sets. ``resources.nodes`` is removed:
    SkyPilot starts the job on each node of a task with several nodes.
    """
    value = job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude=_APART)
    secrets: dict[str, str] = {}
    named: dict[str, str] = {}
    for part in _parts(value):
        resources = part.get("resources")
        if isinstance(resources, dict):
            resources.pop("nodes", None)
        for where, key in _references(part):
            secret = Secret.model_validate(where[key])
            reference = str(secret)
            variable = secret.env or named.setdefault(reference, f"TARMAC_SECRET_{len(named) + 1}")
            secrets[variable] = reference.removeprefix("(secret: ").removesuffix(")")
            where[key] = {"env": variable}
    return Embedded(value, secrets)


def _parts(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield value
    yield from value.get("tasks", ())
    if value.get("after_all"):
        yield value["after_all"]


def _references(part: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each mapping that holds a reference to a secret, with the reference's key."""
    secrets = part.get("secrets")
    if isinstance(secrets, dict):
        for key in secrets:
            yield secrets, key
    environment = part.get("environment")
    if isinstance(environment, dict) and environment.get("login"):
        yield environment, "login"

"""The job that a SkyPilot task carries: what it needs is said so that the opened machine has it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tarmac.jobs import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tarmac.jobs import Job

# Of a converted job: what its file was, and what kept it from being run at another place.
_APART = {"original", "refusals"}


@dataclasses.dataclass(frozen=True)
class Embedded:
    """A job as it is run on the machine that is opened.

    Attributes:
        value: Its file, as plain values.
        secrets: Variables that hold its secrets there, each with what is to be given for it, in
            words.
    """

    value: dict[str, Any]
    secrets: dict[str, str]


def embed(job: Job) -> Embedded:
    """Return a job as a file for the one machine that each of its tasks runs on.

    Secrets come from variables, as SkyPilot gives them; a task of several nodes is a part on each.
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
    """Yield each mapping that holds a reference to a secret, with its key there."""
    secrets = part.get("secrets")
    if isinstance(secrets, dict):
        for key in secrets:
            yield secrets, key
    environment = part.get("environment")
    if isinstance(environment, dict) and environment.get("login"):
        yield environment, "login"

"""Turns an attempt into an agent's element: command, variables, secret files and staging."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from tarmac.environments import node_directory, shipped_venv
from tarmac.errors import RequestError
from tarmac.executors.interface import Attempt, Site, is_retried
from tarmac.executors.launching import attempt_variables
from tarmac.executors.node_staging import NodeRequest
from tarmac.executors.spool import Spool
from tarmac.executors.staging import venv_spec
from tarmac.files import Location, expanded
from tarmac.node import AttemptSpec
from tarmac.tasks.cluster_containers import refuse_unknown_settings
from tarmac.tasks.model import (
    BuiltEnvironment,
    Conda,
    Container,
    Environment,
    Project,
    Secret,
    Venv,
)
from tarmac.tasks.plan import Task
from tarmac.tasks.receipts import Receipt
from tarmac.tasks.secrets import place_of_secret, resolve_secrets

# Prefixes of the variables that clients of stores and web servers read, then those of installers.
_OF_CLIENTS = (
    *("AWS_", "S3_", "AZURE_", "GOOGLE_", "GCS_"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_OF_INSTALLERS = ("PIP_", "UV_")

# Client variables that hold no secret: a store's address and its access options.
_PLAIN = (
    *("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SKIP_SIGNATURE"),
    *("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "S3_ENDPOINT", "S3_USE_HTTPS", "S3_VERIFY_SSL"),
    *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT"),
)

# Variables that the agent sets; a container only gets variables that are passed by name.
_OF_AGENTS = (
    *("TARMAC_RESTART", "TARMAC_NODES", "TARMAC_NODE_RANK", "TARMAC_GPUS_PER_NODE"),
    *("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoSharedFilesystem:
    """The replacement for this machine's files on a node that sees none of them.

    Attributes:
        python: Python interpreter on the node that has Tarmac: a path, or a name in PATH.
        settings: Environment variables for clients of stores. They hold no secret; the node has its
            own keys.
        receipt: Receipt that the task leaves in its store; None to leave no receipt.
    """

    python: str
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    receipt: Receipt | None = None


def prepare_element(
    attempt: Attempt,
    nonce: str,
    site: Site,
    spool: Spool,
    *,
    options: Mapping[str, Any],
    grace_s: float = 10.0,
    apart: NoSharedFilesystem | None = None,
) -> AttemptSpec:
    """Return the agent's element for an attempt.

    Args:
        attempt: Attempt to hand to the agent.
        nonce: Random hex text that distinguishes this submission's chunk from others.
        site: Directories, secrets and settings of the run.
        spool: Spool that gets the secrets that are in no file.
        options: The task's options for the engine. ``check`` says whether to check its GPUs before
            the program begins. ``work`` is its working directory: ``shared``, below the attempt's
            own directory, or a directory on the node's own disk, which may contain variables of the
            node. ``containers`` names the container engine. ``store`` is a directory that all nodes
            see, for environments and images that were made for nodes. Default: a part of the user's
            cache directory.
        grace_s: Seconds between SIGTERM and SIGKILL. Default 10.
        apart: Python, settings and receipt for a node that sees no file of this machine; None where
            the node sees them.

    Raises:
        RequestError: A secret is not available, or cannot be stored.
        StorageError: The spool cannot be written.
    """
    task = attempt.task
    variables = attempt_variables(attempt, task.resources.cpus)
    secrets = {
        name: str(_secret_file(name, secret, site, spool)) for name, secret in task.secrets.items()
    }
    return AttemptSpec(
        task=task.index,
        name=task.name,
        number=attempt.number,
        nonce=nonce,
        directory=str(attempt.directory),
        command=[*task.command],
        variables=variables,
        secrets=secrets,
        timeout_s=task.timeout_s,
        memory_bytes=task.resources.memory,
        gpus=math.ceil(task.resources.gpus),
        gpu_memory_bytes=task.resources.gpu_memory,
        nodes=task.resources.nodes,
        grace_s=grace_s,
        work=_work(attempt, options),
        kept=attempt.kept,
        stage=_staged(
            attempt,
            site,
            spool,
            name=f"tarmac-{nonce}-{task.index}-{attempt.number}",
            options=options,
            names=(*variables, *secrets),
            apart=apart,
        ),
        python=apart.python if apart is not None else sys.executable,
        is_pretending=site.fake_gpus > 0,
        shares_gpus=0 < task.resources.gpus < 1,
        check=str(options.get("check") or "off"),
    )


def build_environments(tasks: Sequence[Task], base: Path, *, engine: str) -> None:
    """Build virtual environments on this machine before any submission, where options ask for it.

    Args:
        tasks: All tasks of the run.
        base: The job file's directory, which relative paths start from.
        engine: Executor whose part of `Task.options` is read, such as ``slurm``.

    Raises:
        RequestError: An interpreter or a requirements file is missing.
        TarmacError: A build failed; the message contains the installer's output.
    """
    wanted: dict[tuple[str, Path], Venv | Project] = {}
    for task in tasks:
        options = task.options.get(engine, {})
        environment = task.environment
        if options.get("environments") != "here":
            continue
        if isinstance(environment, Conda) and environment.is_built:
            raise RequestError(
                f"task {task.name!r}: conda environments are built on the nodes, not here",
                hint="Leave environments out, or name one on a disk that all nodes see: "
                "environment: {kind: conda, prefix: PATH}",
            )
        if isinstance(environment, Venv) and environment.needs_driver:
            raise RequestError(
                f"task {task.name!r}: its gpu_requirements depend on the driver of its node, "
                "which is unknown when the environment is built here",
                hint="Leave environments out, or give gpu_requirements as one list",
            )
        if isinstance(environment, (Venv, Project)):
            wanted[environment.model_dump_json(), _store(options)] = environment
    for (_, store), made in wanted.items():
        shipped_venv(venv_spec(made), base, store, node_directory() / "venvs")


def refuse_unknown_containers(tasks: Sequence[Task], *, engine: str) -> None:
    """Raise a RequestError where a container uses settings that its named engine lacks.

    Containers without a named engine are checked on their node.

    Args:
        tasks: Tasks of the job; those without a container are skipped.
        engine: Executor whose task options may name a container engine, such as ``slurm``.
    """
    for task in tasks:
        if not isinstance(task.environment, Container):
            continue
        name = task.environment.engine or task.options.get(engine, {}).get("containers")
        if name is not None:
            try:
                refuse_unknown_settings(task.environment, name)
            except RequestError as error:
                raise RequestError(
                    f"task {task.name!r}: {error.message}", hint=error.hint
                ) from error


def _secret_file(variable: str, secret: Secret, site: Site, spool: Spool) -> Path:
    """Return the file from which a node reads a secret."""
    place = place_of_secret(variable, secret, site.secrets, site.base)
    if not isinstance(place, str):
        return place
    if place not in os.environ:
        raise RequestError(f"secret for {variable}: the variable {place} is not set")
    resolve_secrets({variable: secret}, os.environ, site.secrets, site.base)
    return spool.put(place, os.fsencode(os.environ[place]))


def _work(attempt: Attempt, options: Mapping[str, Any]) -> str:
    # A container sees only its directory, so `kept` must not be a link to outside.
    if attempt.kept and isinstance(attempt.task.environment, Container):
        return "shared"
    return str(options.get("work", "shared"))


def _staged(
    attempt: Attempt,
    site: Site,
    spool: Spool,
    *,
    name: str,
    options: Mapping[str, Any],
    names: tuple[str, ...],
    apart: NoSharedFilesystem | None,
) -> str | None:
    """Return the staging request of an attempt as text; None where nothing is staged."""
    task = attempt.task
    environment = task.environment
    if not (task.inputs or task.outputs or isinstance(environment, (BuiltEnvironment, Container))):
        return None
    request = NodeRequest(
        name=name,
        base=site.base,
        shared=site.shared,
        inputs=tuple(task.inputs),
        outputs=tuple(task.outputs),
        environment=_with_login_in_file(environment, site, spool),
        command=tuple(task.command) if isinstance(environment, Container) else (),
        resources=task.resources,
        names=(*names, *_OF_AGENTS) if isinstance(environment, Container) else (),
        store=_store(options),
        engine=options.get("containers"),
        is_pretending=site.fake_gpus > 0,
        clients=_client_settings(task, spool) if apart is None else None,
        settings={} if apart is None else {**apart.settings},
        receipt=None if apart is None else apart.receipt,
        retried_on=_retried_on(attempt),
        kept=attempt.kept,
    )
    return request.to_text()


def _store(options: Mapping[str, Any]) -> Path:
    named = options.get("store")
    if not named:
        return platformdirs.user_cache_path("tarmac") / "environments"
    return expanded(os.path.expandvars(str(named))).absolute()


def _with_login_in_file(environment: Environment, site: Site, spool: Spool) -> Environment:
    if not isinstance(environment, Container) or environment.login is None:
        return environment
    path = _secret_file("the registry", environment.login, site, spool)
    return environment.model_copy(update={"login": Secret(file=str(path))})


def staging_variables(task: Task, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the staging of a task reads.

    Args:
        task: Task whose inputs, outputs and environment are staged.
        environment: Variables to choose from, usually ``os.environ``.
    """
    places = [*(entry.source for entry in task.inputs), *(output.to for output in task.outputs)]
    locations = [Location.parse(place) for place in places]
    is_remote = any(location.is_url or location.is_object for location in locations)
    wanted: tuple[str, ...] = ()
    if is_remote or isinstance(task.environment, (BuiltEnvironment, Container)):
        wanted += _OF_CLIENTS
    if isinstance(task.environment, BuiltEnvironment):
        wanted += _OF_INSTALLERS
    # An empty tuple of prefixes matches nothing.
    return {name: value for name, value in environment.items() if name.upper().startswith(wanted)}


def store_settings(task: Task, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the staging variables of a task that hold no secret.

    Args:
        task: Task that is staged. Names of its own secrets are left out.
        environment: Variables to choose from, usually ``os.environ``.

    Raises:
        RequestError: A variable's value contains a password.
    """
    settings = {
        name: value
        for name, value in staging_variables(task, environment).items()
        if name in _PLAIN and name not in task.secrets
    }
    for name, value in settings.items():
        if "@" in value:
            raise RequestError(
                f"task {task.name!r}: {name} holds a password, which other users could read on "
                "the nodes",
                hint=f"Make it a secret of the task: secrets: {{{name}: {{env: {name}}}}}",
            )
    return settings


def _client_settings(task: Task, spool: Spool) -> Path | None:
    """Store the variables that staging a task reads; return their file, None for no variables."""
    variables = staging_variables(task, os.environ)
    if not variables:
        return None
    name = "installers.json" if isinstance(task.environment, BuiltEnvironment) else "clients.json"
    return spool.put(name, json.dumps(variables, sort_keys=True).encode())


def _retried_on(attempt: Attempt) -> tuple[int, ...] | None:
    codes = attempt.task.retries.codes
    return codes if is_retried(attempt, "failed", codes[0] if codes else 1) else None

"""An algorithm wrapped for a cluster: a job task in which Tarmac hosts it on the node."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tarmac.distribution import install_hint
from tarmac.errors import RequestError
from tarmac.formats import Algorithm
from tarmac.hkube.clusters.node_tasks import errand_file
from tarmac.hkube.hosting import Work
from tarmac.jobs import (
    Container,
    Job,
    Retries,
    RunRequest,
    Secret,
    SystemEnvironment,
    Task,
    escape,
    find_executor,
    plan_tasks,
    prepare,
)
from tarmac.processes import python_command

# The highest priority of HKube's pipelines.
HIGHEST_PRIORITY = 5

# Memory of the host on the node, which shares the task's memory limit.
_HOST_BYTES = 256 * 2**20

# Without this variable, training would look for data in another directory.
_PASSED_ON = ("TARMAC_DATA",)

_RESULTS = "tasks of a pipeline get their inputs and leave their results in its run's directory"


@dataclasses.dataclass(frozen=True)
class Wrapped:
    """An algorithm as a cluster runs it.

    Attributes:
        algorithm: Algorithm as the node hosts it.
        template: Task for the cluster, without its final index, name and command.
    """

    algorithm: Algorithm
    template: Task

    def task(self, work: Work, directory: Path, number: int) -> Task:
        """Return the task of an attempt.

        Args:
            work: Task that the attempt runs.
            directory: Directory of the task, which holds the files of all its attempts.
            number: Number of the attempt within its task, from 1.
        """
        path = str(errand_file(directory, number))
        return dataclasses.replace(
            self.template,
            name=work.name,
            index=work.index,
            command=(*_HOSTING, path),
            priority=work.priority,
        )


_HOSTING = python_command("tarmac", "hkube", "work")


def wrap(
    algorithm: Algorithm, base: Path, on: str, options: Mapping[str, Mapping[str, Any]]
) -> Wrapped:
    """Return an algorithm as a cluster runs it.

    Args:
        algorithm: Algorithm as its definition has it.
        base: Directory that relative paths in its job start from.
        on: Name of the executor, one of `tarmac.jobs.executor_names`.
        options: Executor-specific options, by executor name.

    Raises:
        RequestError: The algorithm's job cannot be planned.
    """
    (template,) = plan_tasks(_asked(algorithm, on, options), base)
    # The host on the node stages in the inputs, as a local host does.
    template = dataclasses.replace(template, inputs=(), priority=HIGHEST_PRIORITY)
    # On the node, secrets are already environment variables, and there is one task.
    secrets = {name: Secret(env=name) for name in algorithm.job.secrets}
    hosted = algorithm.job.model_copy(update={"secrets": secrets})
    if find_executor(on).runs_containers:
        hosted = hosted.model_copy(update=_within(algorithm))
    return Wrapped(
        dataclasses.replace(algorithm, job=hosted, min_hot_workers=0, max_workers=0), template
    )


def refuse_on(
    algorithms: Mapping[str, Algorithm],
    base: Path,
    request: RunRequest,
    on: str,
    options: Mapping[str, Mapping[str, Any]],
    *,
    by_job: bool = False,
) -> None:
    """Refuse algorithms that the cluster can never run, before anything starts.

    Args:
        algorithms: Algorithms that the run will need, by name.
        base: Directory that relative paths in the jobs start from.
        request: Options of the run, such as its secrets and pretended GPUs.
        on: Name of the executor, one of `tarmac.jobs.executor_names`.
        options: Executor-specific options, by executor name.
        by_job: Whether the runner itself will be a job of the cluster.

    Raises:
        RequestError: The cluster does not answer, has no node that is large enough, or does not see
            this machine's directories; or a secret or an input is missing.
    """
    kind = find_executor(on)
    if kind.refuse_apart is not None:
        kind.refuse_apart(options.get(on, {}), _RESULTS)
    for algorithm in algorithms.values():
        job = _asked(algorithm, on, options)
        prepare(job, base, request, executor=on, by_job=by_job)


def _asked(algorithm: Algorithm, on: str, options: Mapping[str, Mapping[str, Any]]) -> Job:
    """Return the job that the cluster runs for an algorithm."""
    job, needs = algorithm.job, algorithm.job.resources
    environment = job.environment
    if not find_executor(on).runs_containers:
        # The host on the node creates the environment, as a local host does.
        environment = SystemEnvironment()
    elif isinstance(environment, Container):
        _within(algorithm)
        environment = environment.model_copy(update={"entrypoint": None})
    memory = None if needs.memory is None else needs.memory + _HOST_BYTES
    passed = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    return job.model_copy(
        update={
            "command": tuple(escape(word) for word in _HOSTING),
            "environment": environment,
            "resources": needs.model_copy(update={"memory": memory}),
            "env": {name: escape(str(Path(value).resolve())) for name, value in passed.items()},
            "options": {name: dict(values) for name, values in options.items()},
            "retries": Retries(),
        }
    )


def _within(algorithm: Algorithm) -> dict[str, Any]:
    """Return the changes to an algorithm's job if the task already runs in its container.

    Raises:
        RequestError: The container has no command to start.
    """
    environment, command = algorithm.job.environment, algorithm.job.command
    if not isinstance(environment, Container):
        return {}
    first = environment.entrypoint or ()
    if isinstance(command, str):
        command = ("sh", "-c", command)
    if not (*first, *(command or ())):
        raise RequestError(
            f"algorithm {algorithm.name} has no command, but Tarmac starts first in its container",
            hint="Write the command of its image, and install Tarmac in it "
            f"({install_hint('hkube')}):\n"
            f"  options: {{tarmac: {{environment: {{image: "
            f"{environment.image}}}, command: [python, app.py]}}}}",
        )
    return {"environment": SystemEnvironment(), "command": (*first, *(command or ()))}

"""The checks of a job and its tasks, before a run of it is created."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tarmac.environments import engine_program, refuse_unreadable
from tarmac.errors import RequestError
from tarmac.executors import find_executor
from tarmac.executors.staging import environment_spec
from tarmac.jobs.request import DEFAULT_REQUEST, RunRequest
from tarmac.tasks.inputs import refuse_missing_inputs
from tarmac.tasks.model import Conda, Container, Job, Project, Secret, Venv
from tarmac.tasks.outputs import refuse_unknown_stores
from tarmac.tasks.plan import Task, plan_tasks
from tarmac.tasks.secrets import missing_secrets
from tarmac.tasks.workload_files import refuse_missing_workload


def prepare(
    job: Job,
    base: Path,
    request: RunRequest = DEFAULT_REQUEST,
    *,
    executor: str = "local",
    by_job: bool = False,
) -> tuple[Task, ...]:
    """Expand a job into tasks, and check them before anything starts.

    Args:
        job: Job to expand and to check.
        base: Directory that the job's paths start from.
        request: Options of the run, such as its secrets. Default: `DEFAULT_REQUEST`.
        executor: Name of the executor, one of `executor_names`. Default ``local``.
        by_job: Whether the run's runner is to be a job of the engine, where it can be. Default
            False.

    Raises:
        RequestError: The job states that it cannot run here, or a task can never fit, needs a
            missing secret or input, or needs something unknown here.
    """
    if job.refusals:
        first, *rest = job.refusals
        raise RequestError(f"{job.name} cannot be run here: {first}", hint="\n".join(rest) or None)
    tasks = tuple(plan_tasks(job, base))
    refuse_tasks(tasks, base, request, executor=executor, by_job=by_job)
    return tasks


def refuse_tasks(
    tasks: Sequence[Task],
    base: Path,
    request: RunRequest = DEFAULT_REQUEST,
    *,
    executor: str = "local",
    by_job: bool = False,
) -> None:
    """Raise a RequestError for a task that cannot succeed; see `prepare`."""
    is_pretending = request.fake_gpus > 0
    for check in _checks(tasks, base, request.secrets, executor, is_pretending=is_pretending):
        check()
    kind = find_executor(executor)
    afar = kind.refuse_afar if by_job else None
    (afar or kind.refuse)(tasks, request.fake_gpus)


def problems_beforehand(
    tasks: Sequence[Task],
    base: Path,
    mapping: Mapping[str, Secret],
    *,
    executor: str = "local",
    is_pretending: bool = False,
) -> list[str]:
    """Return why `prepare` would refuse tasks, apart from checks that only their nodes can do.

    Args:
        tasks: Tasks of a job, already expanded.
        base: Directory that the job's paths start from.
        mapping: Places of named secrets on this machine.
        executor: Name of the executor that runs the tasks. Default ``local``.
        is_pretending: Whether the GPUs are simulated. Default False.
    """
    problems: dict[str, None] = {}
    for check in _checks(tasks, base, mapping, executor, is_pretending=is_pretending):
        try:
            check()
        except RequestError as error:
            problems[str(error)] = None
    return [*problems]


def _checks(
    tasks: Sequence[Task],
    base: Path,
    mapping: Mapping[str, Secret],
    executor: str,
    *,
    is_pretending: bool,
) -> Iterator[Callable[[], object]]:
    """Yield the checks of tasks that need only this machine; each raises on failure."""
    has_named = find_executor(executor).has_secrets
    yield partial(missing_secrets, tasks, os.environ, mapping, base, has_named=has_named)
    yield partial(_refuse_missing_workloads, tasks, base, executor=executor)
    if executor == "local":
        engines = (t.environment.engine for t in tasks if isinstance(t.environment, Container))
        for engine in dict.fromkeys(engines):
            yield partial(engine_program, engine)
    for task in tasks:
        yield partial(refuse_unknown_stores, task.outputs)
        if not task.needs:
            yield partial(refuse_missing_inputs, task.inputs, base)
    is_here = executor == "local"
    yield partial(_refuse_environments, tasks, base, is_here=is_here, has_driver=not is_pretending)


def _refuse_environments(
    tasks: Sequence[Task], base: Path, *, is_here: bool, has_driver: bool
) -> None:
    checked = set()
    for task in tasks:
        environment = task.environment
        # The tasks that it needs may create the files of its environment.
        if task.needs or not isinstance(environment, (Conda, Project, Venv)):
            continue
        if isinstance(environment, Venv) and environment.needs_driver:
            if not is_here:
                # The driver of its node chooses the requirements.
                continue
            environment = environment.chosen(with_gpus=has_driver)
        content = environment.model_dump_json()
        if content not in checked:
            checked.add(content)
            with _naming(task):
                refuse_unreadable(environment_spec(environment), base, is_here=is_here)


def _refuse_missing_workloads(tasks: Sequence[Task], base: Path, *, executor: str) -> None:
    checked = set()
    for task in tasks:
        # A container image may have workloads of its own.
        if not task.trains or isinstance(task.environment, Container):
            continue
        reference = task.train_words[0]
        if reference not in checked:
            checked.add(reference)
            with _naming(task):
                refuse_missing_workload(reference, task.inputs, base, is_here=executor == "local")


@contextlib.contextmanager
def _naming(task: Task) -> Iterator[None]:
    """Begin the message of a refusal with the name of its task."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"task {task.name!r}: {error.message}", hint=error.hint) from error

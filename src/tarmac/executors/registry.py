"""The table of executors: Tarmac's own, and those of installed packages."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.environments import find_engine
from tarmac.errors import TarmacError, unknown_name
from tarmac.executors.interface import Executor, ExecutorKind, Site
from tarmac.executors.kubernetes import KUBERNETES
from tarmac.executors.local import LocalExecutor
from tarmac.executors.ray import RAY
from tarmac.executors.slurm import SLURM
from tarmac.extensions import load_provided, names_with_provided
from tarmac.tasks.machine import read_machine
from tarmac.tasks.model import Container
from tarmac.tasks.plan import Task
from tarmac.tasks.secrets import secret_variables

_GROUP = "tarmac.executors"


def _refuse_here(tasks: Sequence[Task], fake_gpus: int) -> None:
    engines = (t.environment.engine for t in tasks if isinstance(t.environment, Container))
    for engine in dict.fromkeys(engines):
        find_engine(engine)
    read_machine(fake_gpus=fake_gpus).refuse_what_never_fits(tasks)


def _open_here(site: Site) -> Executor:
    return LocalExecutor(
        read_machine(fake_gpus=site.fake_gpus),
        site.base,
        site.shared,
        containers=[t.environment for t in site.tasks if isinstance(t.environment, Container)],
        mapping=site.secrets,
        secret_variables=secret_variables(site.tasks, site.secrets),
    )


_BUILT_IN = {
    "local": ExecutorKind("local", "this machine", refuse=_refuse_here, open=_open_here),
    "slurm": SLURM,
    "kubernetes": KUBERNETES,
    "ray": RAY,
}


def executor_names() -> tuple[str, ...]:
    """Return the names of Tarmac's own executors, then those of installed packages."""
    return names_with_provided(_GROUP, _BUILT_IN)


def find_executor(name: str) -> ExecutorKind:
    """Return the executor of a name.

    Args:
        name: Name of an executor, one of `executor_names`.

    Raises:
        RequestError: No executor has that name.
        TarmacError: See `load_provided`.
    """
    kind = _BUILT_IN.get(name) or load_provided(_GROUP, "executor", name, ExecutorKind)
    if kind is not None:
        return kind
    raise unknown_name("executor", name, dict.fromkeys(executor_names(), ""))


def outlives_runner(name: str) -> bool:
    """Return whether an executor's tasks outlive the runner; True for an executor not installed."""
    try:
        return find_executor(name).outlives
    except TarmacError:
        return True

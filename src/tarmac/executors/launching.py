"""Starts an attempt's program with its command, its environment and its limits."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tarmac.executors.interface import Attempt
from tarmac.processes import MARK, Process, make_memory_group, start
from tarmac.tasks.containers import ContainerRun, container_command, was_out_of_memory
from tarmac.tasks.leases import TaskLeases
from tarmac.tasks.machine import Grant
from tarmac.tasks.model import Container, Secret
from tarmac.tasks.plan import LAUNCH, Task, thread_variables
from tarmac.tasks.secrets import resolve_secrets, secret_variables


@dataclasses.dataclass(frozen=True, kw_only=True)
class Launcher:
    """Starts the programs of a run's attempts.

    Attributes:
        mark: Random hex text that marks each process of the run, so that a guardian finds it.
        base: Directory that relative paths of secrets and mounts start from: the job file's.
        secrets: Secrets of this machine, by the name that job files use.
        secret_variables: Environment variables of this process that hold a task's secret. Only
            tasks that ask for a secret inherit its variable.
        engines: Programs of container engines, by the name in a task's environment; None is the
            default.
    """

    mark: str
    base: Path
    secrets: Mapping[str, Secret]
    secret_variables: Collection[str]
    engines: Mapping[str | None, str]

    def launch(self, attempt: Attempt, grant: Grant, variables: Mapping[str, str]) -> Process:
        """Start the program of an attempt.

        Args:
            attempt: Attempt whose directory gets ``stdout``, ``stderr`` and ``work/``.
            grant: CPUs, memory and GPUs that the attempt holds.
            variables: Environment variables that staging its environment returned, such as
                ``VIRTUAL_ENV``.

        Raises:
            OSError: The program or the directory is not available.
            TarmacError: A secret is not available.
            ValueError: A text cannot be passed to a program, such as one with a zero byte.
        """
        task, directory = attempt.task, attempt.directory
        work = directory / "work"
        own = attempt_variables(attempt, grant.cpus)
        group = None
        try:
            work.mkdir(parents=True, exist_ok=True)
            hidden = resolve_secrets(task.secrets, os.environ, self.secrets, self.base)
            command: Sequence[str] = task.command
            kill_command: Sequence[str] = ()
            if isinstance(task.environment, Container):
                _give(work, task.environment.user)
                command, kill_command = self._in_container(
                    attempt, task.environment, grant, own, [*hidden]
                )
            else:
                leases = TaskLeases(grant.gpus, directory / "leases")
                own = {"CUDA_VISIBLE_DEVICES": ",".join(grant.gpus)} | own | leases.variables()
                if grant.memory:
                    group = make_memory_group(self._name_of(attempt), grant.memory)
            return start(
                command,
                directory=work,
                environment={
                    **self._inherited(task),
                    **variables,
                    **own,
                    **hidden,
                    MARK: self.mark,
                },
                stdout=directory / "stdout",
                stderr=directory / "stderr",
                kill_command=kill_command,
                memory_group=group,
            )
        except BaseException:
            if group is not None:
                group.remove()
            raise

    def look_for_memory(self, attempt: Attempt, process: Process, seconds: float) -> None:
        """Mark a container's process as over its memory limit where that is why it was killed.

        Args:
            attempt: Attempt that the process belongs to.
            process: Process of the attempt, which has ended.
            seconds: Time that the process ran.
        """
        container, memory = attempt.task.environment, attempt.task.resources.memory
        if not isinstance(container, Container) or memory is None:
            return
        engine, name = self.engines[container.engine], self._name_of(attempt)
        if was_out_of_memory(engine, name, seconds + 1.0):
            process.is_over_memory = True
            process.stopped_for = f"it took more than {memory / 2**20:.0f} MiB of memory"

    def _inherited(self, task: Task) -> dict[str, str]:
        """Return the variables of this process without the secrets of other tasks."""
        others = {*self.secret_variables} - secret_variables([task], self.secrets)
        return {name: value for name, value in os.environ.items() if name not in others}

    def _in_container(
        self,
        attempt: Attempt,
        container: Container,
        grant: Grant,
        variables: Mapping[str, str],
        secret_names: Sequence[str],
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return the command that runs a task in a container, and the command that kills it."""
        engine, name = self.engines[container.engine], self._name_of(attempt)
        run = ContainerRun(
            container=container,
            command=attempt.task.command,
            resources=attempt.task.resources,
            grant=grant,
            name=name,
            work=attempt.directory / "work",
            base=self.base,
            variables=variables,
            names=secret_names,
        )
        command = container_command(run, engine=engine, mark=self.mark)
        return command, (engine, "kill", name)

    def _name_of(self, attempt: Attempt) -> str:
        """Return the name of an attempt's container or control group."""
        return f"tarmac-{self.mark}-{attempt.task.index}-{attempt.number}"


def program_of(task: Task) -> str:
    """Return the program of a task, or the task's name where its image brings the program."""
    return task.command[0] if task.command else task.name


def attempt_variables(attempt: Attempt, cpus: float) -> dict[str, str]:
    """Return the variables that every task gets, including its own ``env``.

    Args:
        attempt: Attempt that the variables describe.
        cpus: Number of CPUs of the attempt, for thread counts.
    """
    # A task that shares all CPUs sets its own thread counts.
    shares = attempt.task.resources.shares_cpus
    return {
        **({} if shares else thread_variables(cpus)),
        **({LAUNCH: attempt.launch} if attempt.task.trains else {}),
        **attempt.task.env,
        "TARMAC_TASK": attempt.task.name,
        "TARMAC_TASK_INDEX": str(attempt.task.index),
        "TARMAC_ATTEMPT": str(attempt.number),
    }


def _give(work: Path, user: str | None) -> None:
    """Give a task's directory and its inputs to the user that its container runs as.

    Only root can do so. A user name is skipped, as only the image knows its ID.
    """
    ids = (user or "").split(":")
    if os.geteuid() != 0 or not all(part.isdecimal() for part in ids):
        return
    owner, group = int(ids[0]), int(ids[-1]) if len(ids) > 1 else -1
    for path in (work, *work.rglob("*")):
        os.chown(path, owner, group, follow_symlinks=False)

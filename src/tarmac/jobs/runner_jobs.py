"""Runner jobs: a run's runner, submitted as a job of the engine that runs the tasks.

A runner job is a normal runner, ``tarmac run --resume RUN``, and its whole state is in the run's
directory. Its time is limited, so it queues a successor before it ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError
from tarmac.executors import RunnerJob, find_executor
from tarmac.executors.elements import staging_variables
from tarmac.files import trust_in_this_user
from tarmac.jobs.request import DEFAULT_REQUEST, RunRequest
from tarmac.processes import python_command
from tarmac.tasks.model import Secret
from tarmac.tasks.runner_notes import (
    RUNNER_JOB,
    is_marked,
    mark_file,
    mark_runner,
    note_runner_place,
    own_number,
    reserve_runner,
    runner_numbers,
    runner_place,
)
from tarmac.tasks.secrets import secret_variables

if TYPE_CHECKING:
    from tarmac.jobs.job_run import JobRun

# Variables of the submitting user that a runner reads: paths, none of them secret.
_PASSED_ON = (
    *("TARMAC_SECRETS", "TARMAC_SPOOL", "TARMAC_DATA"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
)


def why_no_runner_job(run: JobRun, request: RunRequest) -> str | None:
    """Return why a run's runner cannot be a job; None if it can.

    Args:
        run: Run whose runner is to be submitted as a job.
        request: Options of the run, with its secrets.
    """
    engine = find_executor(run.executor).runners
    if engine is None:
        return f"{run.executor} cannot run runners"
    missing = secret_variables(run.tasks, request.secrets) - {*os.environ}
    if missing:
        return f"the variable {min(missing)}, which holds a secret, is not set"
    return None


def recall_secrets(run: JobRun) -> None:
    """Set the secret variables that a runner of the run was submitted with.

    Variables that this process has already stay unchanged.

    Args:
        run: Run whose runner this process is.

    Raises:
        StorageError: The secrets cannot be read.
    """
    engine = find_executor(run.executor).runners
    if engine is not None:
        for name, value in engine.secrets(run.path).items():
            os.environ.setdefault(name, value)


def submit_runner(run: JobRun, request: RunRequest = DEFAULT_REQUEST) -> str:
    """Submit a run's runner as a job.

    Args:
        run: Run whose runner is submitted.
        request: Options of the run for its runner. Default: `DEFAULT_REQUEST`.

    Returns:
        The engine's name for the job.

    Raises:
        RequestError: The runner cannot be a job; see `why_no_runner_job`.
        TarmacError: The engine refuses the job.
    """
    reason = why_no_runner_job(run, request)
    if reason is not None:
        raise RequestError(f"--runner engine: {reason}", hint="--runner here")
    return _submit(run, request.runner_options(), _secrets_of(run, request.secrets), after="")


@dataclasses.dataclass
class OwnRunnerJob:
    """The runner job that this process is.

    Attributes:
        run: Run whose runner this process is.
        number: Number of this job among the run's runner jobs, from 1.
    """

    run: JobRun
    number: int
    _was_warned: bool = False

    @classmethod
    def find(cls, run: JobRun) -> OwnRunnerJob | None:
        """Return the runner job of this process; None where it is no runner job of this run."""
        number = own_number(run.path)
        return None if number is None else cls(run, number)

    def is_wanted(self) -> bool:
        """Whether the run still needs this runner.

        False after an earlier runner has finished the run, or after a cancellation.
        """
        return not is_marked(self.run.path, self.number, "over")

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Mark the job as begun on exit, even if it was refused the run's lock.

        For a job that gets the lock, `working_on` sets the mark at once.
        """
        try:
            yield
        finally:
            mark_runner(self.run.path, self.number, "begun")

    def queue_successor_in_time(self, options: Sequence[str]) -> str | None:
        """Submit a successor once the engine has warned of this job's end; call often.

        Args:
            options: Options of ``tarmac run`` that are not in the run's record, such as ``--jobs``.

        Returns:
            The engine's name for the successor; None before the warning, and after the first call
            that followed it.

        Raises:
            TarmacError: The engine refuses the successor; it is not submitted again.
        """
        if self._was_warned or not is_marked(self.run.path, self.number, "warned"):
            return None
        self._was_warned = True
        own = runner_place(self.run.path, self.number)
        engine = find_executor(self.run.executor).runners
        assert engine is not None
        return _submit(self.run, options, engine.secrets(self.run.path), after=own)


def end_runner_jobs(run: Path, executor: str, *, but: OwnRunnerJob | None = None) -> None:
    """Cancel all runner jobs of a run, and prevent queued ones from beginning.

    Args:
        run: Directory of the run, with the notes on its runner jobs.
        executor: Name of the executor whose engine has the jobs.
        but: The calling job, which ends by itself. None: a caller that is no runner job.
    """
    numbers = [number for number in runner_numbers(run) if not is_marked(run, number, "over")]
    for number in numbers:
        mark_runner(run, number, "over")
    others = [number for number in numbers if but is None or number != but.number]
    engine = find_executor(executor).runners
    if engine is not None and others:
        engine.cancel(run, others)


def _secrets_of(run: JobRun, places: Mapping[str, Secret]) -> dict[str, str]:
    """Return the variables with secrets of tasks, and those that their stagers read."""
    names = secret_variables(run.tasks, places)
    variables = {name: os.environ[name] for name in names}
    for task in run.tasks:
        variables |= staging_variables(task, os.environ)
    return variables


def _submit(run: JobRun, options: Sequence[str], secrets: Mapping[str, str], *, after: str) -> str:
    engine = find_executor(run.executor).runners
    assert engine is not None
    number = reserve_runner(run.path)
    # A job starts in another directory.
    variables = {
        name: str(Path(os.environ[name]).absolute()) for name in _PASSED_ON if os.environ.get(name)
    }
    job = RunnerJob(
        run=run.path,
        number=number,
        num_tasks=len(run.tasks),
        command=python_command("tarmac", "run", "--resume", str(run.path), *options),
        variables={
            **variables,
            **trust_in_this_user(),
            RUNNER_JOB: f"{number}:{run.path.name}",
            "PYTHONUNBUFFERED": "1",
        },
        secrets=secrets,
        options=run.job.options.get(run.executor, {}),
        warned=mark_file(run.path, number, "warned"),
        after=after,
    )
    place = engine.submit(job)
    note_runner_place(run.path, number, place)
    return place

"""Jobs started in the background, with a handle shaped like `concurrent.futures`."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path

from tarmac.errors import RequestError, TarmacError, quoted, unknown_name
from tarmac.executors import find_executor
from tarmac.files import (
    TRUSTED_USERS,
    LeaseWatch,
    foreign_owner,
    open_regular,
    read_errors,
)
from tarmac.jobs.job_run import JobRun, find_run, work_on
from tarmac.jobs.progress import Silent
from tarmac.jobs.record import RECORD, read_record
from tarmac.jobs.request import DEFAULT_REQUEST, RunRequest
from tarmac.jobs.runner_jobs import end_runner_jobs
from tarmac.jobs.runner_record import ask_to_end, note_runner
from tarmac.jobs.runner_watch import RunnerWatch
from tarmac.jobs.status import RunStatus, read_status
from tarmac.jobs.task_status import TaskStatus
from tarmac.processes import python_command
from tarmac.tasks.model import Job
from tarmac.tasks.plan import Task, plan_tasks
from tarmac.tasks.runner_notes import last_runner
from tarmac.wording import counted

# Poll interval for the runner of another process; an own runner is waited for.
_LOOK_EVERY_S = 0.1

# Without a runner, each poll reads a file of every active task.
_LOOK_AT_RECORDS_EVERY_S = 2.0


class JobFailed(TarmacError):  # noqa: N818 - named for what has happened, as CancelledError is
    """The error of a job whose tasks did not all succeed.

    Attributes:
        tasks: States of the tasks that did not succeed.
    """

    def __init__(self, status: RunStatus) -> None:
        self.tasks = [task for task in status.tasks if task.state != "succeeded"]
        failed = [task for task in self.tasks if task.state == "failed"]
        first = failed[0] if failed else None
        cause = f": {first.name}: {first.reason}" if first else ""
        message = f"{len(self.tasks)} of {counted(status.num_tasks, 'task')} did not succeed{cause}"
        super().__init__(
            status.reason or message,
            hint=f"Read the logs: {first.directory if first else status.path}\n"
            f"Run the failed tasks again: tarmac run --resume {quoted(status.path)}",
        )


@dataclasses.dataclass(frozen=True)
class Handle:
    """A submitted job, whose runner continues when this process ends.

    Attributes:
        path: Directory of the run, with its record, journal and logs.
    """

    path: Path
    _popen: subprocess.Popen[bytes] | None = dataclasses.field(default=None, repr=False)
    _watch: LeaseWatch = dataclasses.field(default_factory=LeaseWatch, repr=False, compare=False)
    _runners: RunnerWatch = dataclasses.field(
        default_factory=RunnerWatch, repr=False, compare=False
    )

    def status(self) -> RunStatus:
        """Return the state of the run and of its tasks."""
        if self._popen is not None:
            self._popen.poll()
        return read_status(self.path, self._watch, self._runners)

    def running(self) -> bool:
        """Whether the runner is active, or an engine still has tasks of the run."""
        return self.status().is_active

    def done(self) -> bool:
        """Whether the run has ended, in whatever way."""
        return not self.running()

    def cancelled(self) -> bool:
        """Whether the run ended before all its tasks did: cancelled, or its runner killed."""
        return self.status().state == "interrupted"

    def cancel(self) -> bool:
        """Cancel the run: its tasks get SIGTERM, and SIGKILL after ten seconds.

        A file asks a runner on another machine to end. Without a runner, this process ends the
        tasks that an engine still has, and waits for their end.

        Returns:
            Whether there was a running runner, a task in an engine, or a lost runner job.

        Raises:
            RequestError: The run belongs to another user, whose files name the processes to end, or
                it runs on an unknown machine.
            StorageError: This user may not write the request for the runner on another machine.
        """
        self._refuse_foreign()
        status = self.status()
        if not status.is_active and last_runner(self.path) is None:
            return False
        record = read_record(self.path)
        end_runner_jobs(self.path, record.executor)
        if not status.is_active:
            return True
        if status.state in ("detached", "queued"):
            run = find_run(str(self.path))
            if run.job.pipeline is not None:
                run = dataclasses.replace(run, tasks=_left_of(run, status))
            work_on(run, Silent(), stop=lambda: True)
            return True
        runner = status.runner
        if runner is None or find_executor(record.executor).outlives:
            process = runner or status.elsewhere
            if process is None:
                raise RequestError(
                    f"{self.path.name} is running on another machine", hint="Cancel it there."
                )
            ask_to_end(self.path, process)
            return True
        try:
            return runner.send(signal.SIGTERM)
        except PermissionError as error:
            raise RequestError(
                f"{self.path.name} belongs to another user: no permission to end process "
                f"{runner.pid}",
                hint="Ask that user to cancel it, or use root.",
            ) from error

    def _refuse_foreign(self) -> None:
        # The run's files name the processes and the engine's jobs that would be ended.
        owner = foreign_owner(self.path, self.path / RECORD)
        if owner is not None:
            raise RequestError(
                f"{self.path.name} belongs to {owner}, who could have listed any of your "
                "processes in it",
                hint=f"Ask {owner}. If you trust all that {owner} owns: "
                f"export {TRUSTED_USERS}={owner}",
            )

    def result(self, timeout: float | None = None) -> Sequence[TaskStatus]:
        """Wait for the end of the run.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            All tasks, in the order of the file.

        Raises:
            JobFailed: Not all tasks succeeded.
            concurrent.futures.CancelledError: The run was cancelled, or its runner killed.
            TimeoutError: The run is still active after `timeout`.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.status().tasks

    def exception(self, timeout: float | None = None) -> JobFailed | None:
        """Wait for the end of the run; return its failure, or None after success.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            concurrent.futures.CancelledError: The run was cancelled, or its runner killed.
            TimeoutError: The run is still active after `timeout`.
        """
        self._wait(timeout)
        status = self.status()
        if status.state == "interrupted":
            note = f": the runner's {status.runner_note}" if status.runner_note else ""
            raise CancelledError(
                f"{self.path.name} stopped before its end{note}, "
                f"see {self.path / 'runner.log'}; "
                f"resume it: tarmac run --resume {quoted(self.path)}"
            )
        return JobFailed(status) if status.state == "failed" else None

    def stdout(self, task: str | None = None) -> str:
        """Return the standard output of a task so far.

        Args:
            task: Name of the task; optional in a run with a single task.

        Raises:
            RequestError: No task has this name, or the task has not begun.
        """
        return self._log(task, "stdout")

    def stderr(self, task: str | None = None) -> str:
        """Return the standard error of a task so far; see `stdout`."""
        return self._log(task, "stderr")

    def _wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._popen is not None:
            try:
                self._popen.wait(timeout)
            except subprocess.TimeoutExpired as error:
                raise TimeoutError(f"{self.path.name} is still running") from error
        # An engine may still have tasks of the run after its runner has ended.
        while (status := self.status()).is_active:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{self.path.name} is still running")
            is_quick = status.state == "running"
            time.sleep(_LOOK_EVERY_S if is_quick else _LOOK_AT_RECORDS_EVERY_S)

    def _log(self, name: str | None, stream: str) -> str:
        begun = {task.name: task for task in self.status().tasks}
        if name is None and len(begun) == 1:
            name = next(iter(begun))
        if name is None:
            raise RequestError(
                f"{self.path.name} has {len(begun)} started tasks, name one",
                hint=", ".join(begun) or "None has started.",
            )
        if name not in begun:
            raise unknown_name("task", name, {key: task.state for key, task in begun.items()})
        path = begun[name].directory / stream
        if not path.exists():
            return ""
        with read_errors(path), open_regular(path, within=self.path) as file:
            return file.read().decode("utf-8", "replace")


def _left_of(run: JobRun, status: RunStatus) -> Sequence[Task]:
    """Return stand-ins for the tasks of a pipeline that an engine still has, to end them."""
    stand_in = Job(name=run.job.name, command=("true",), options=run.job.options)
    (template,) = plan_tasks(stand_in, run.base)
    return [
        dataclasses.replace(template, name=task.name, index=task.index)
        for task in status.tasks
        if task.state in ("queued", "running")
    ]


def start_runner(run: JobRun, request: RunRequest = DEFAULT_REQUEST) -> Handle:
    """Start a runner process for a run; its output goes to ``runner.log`` in the run's directory.

    Args:
        run: The run to work on.
        request: Options of the run for the runner. Default: `DEFAULT_REQUEST`.

    Raises:
        RequestError: A named secret refers to another named secret.
    """
    options = ["--resume", str(run.path), *request.runner_options()]
    with (run.path / "runner.log").open("ab") as log:
        popen = subprocess.Popen(
            python_command("tarmac", "run", *options),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    note_runner(run.path, popen.pid)
    return Handle(run.path, popen)


def attach(reference: str, output: str | Path | None = None) -> Handle:
    """Return the handle of an existing run.

    Args:
        reference: Directory of the run, its name, the beginning of its name, or ``latest``.
        output: Directory of the runs; by default ``TARMAC_RUNS`` or ``./runs``.

    Raises:
        RequestError: No run matches, or several do.
    """
    return Handle(find_run(reference, Path(output) if output is not None else None).path)

"""Jobs started in the background, with a handle shaped like `concurrent.futures`."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError, quoted, unknown_name
from tarmac.files import (
    TRUSTED_USERS,
    LeaseWatch,
    expanded,
    foreign_owner,
    open_regular,
    read_errors,
)
from tarmac.jobs.executors import find_executor
from tarmac.jobs.job_run import find_run, work_on
from tarmac.jobs.model import Job
from tarmac.jobs.plan import plan_tasks
from tarmac.jobs.progress import Silent
from tarmac.jobs.record import RECORD, read_record
from tarmac.jobs.runner_jobs import end_runner_jobs
from tarmac.jobs.runner_notes import last_runner
from tarmac.jobs.runner_watch import RunnerWatch
from tarmac.jobs.status import ask_to_end, note_runner, read_status
from tarmac.processes import python_command
from tarmac.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.jobs.job_run import JobRun
    from tarmac.jobs.model import Secret
    from tarmac.jobs.plan import Task
    from tarmac.jobs.status import RunStatus, TaskStatus

# How often a runner of another process is looked at; an own one is waited for.
_LOOK_EVERY_S = 0.1

# Where no runner lives, a file of each task at work is read.
_LOOK_AT_RECORDS_EVERY_S = 2.0


class JobFailed(TarmacError):  # noqa: N818 - named for what has happened, as CancelledError is
    """A job's tasks did not all succeed.

    Attributes:
        tasks: Those that did not.
    """

    def __init__(self, status: RunStatus) -> None:
        self.tasks = [task for task in status.tasks if task.state != "succeeded"]
        failed = [task for task in self.tasks if task.state == "failed"]
        first = failed[0] if failed else None
        cause = f": {first.name}: {first.reason}" if first else ""
        message = f"{len(self.tasks)} of {counted(status.num_tasks, 'task')} did not succeed{cause}"
        super().__init__(
            status.reason or message,
            hint=f"Logs: {first.directory if first else status.path}\n"
            f"Again what has not succeeded: tarmac run --resume {quoted(status.path)}",
        )


@dataclasses.dataclass(frozen=True)
class Handle:
    """A submitted job. Its runner goes on when this process ends.

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
        """Return its state."""
        if self._popen is not None:
            self._popen.poll()
        return read_status(self.path, self._watch, self._runners)

    def running(self) -> bool:
        """Whether its runner is at work, or an engine on what that left behind."""
        return self.status().is_active

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return not self.running()

    def cancelled(self) -> bool:
        """Whether it has ended before all its tasks had: cancelled, or its runner killed."""
        return self.status().state == "interrupted"

    def cancel(self) -> bool:
        """Ask it to end: its tasks get SIGTERM, and SIGKILL after ten seconds.

        A runner on another machine is asked by a file that it looks for. Where no runner lives,
        what an engine still has is ended here, and waited for.

        Returns:
            Whether it was running, or an engine had tasks of it, or a runner that it has lost.

        Raises:
            RequestError: It is another user's, who has written what would be ended, or at work on a
                machine that has not said which.
            StorageError: The runner on another machine may not be asked by this user.
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
                    f"{self.path.name} is at work on another machine", hint="Cancel it there."
                )
            ask_to_end(self.path, process)
            return True
        try:
            return runner.send(signal.SIGTERM)
        except PermissionError as error:
            raise RequestError(
                f"{self.path.name} is another user's: process {runner.pid} may not be ended",
                hint="Ask who has started it, or be root.",
            ) from error

    def _refuse_foreign(self) -> None:
        # It says which processes, and which jobs of engines, are its own.
        owner = foreign_owner(self.path, self.path / RECORD)
        if owner is not None:
            raise RequestError(
                f"{self.path.name} belongs to {owner}, and what it names would be ended as you",
                hint=f"Ask {owner}. If you trust all that {owner} owns: "
                f"export {TRUSTED_USERS}={owner}",
            )

    def result(self, timeout: float | None = None) -> Sequence[TaskStatus]:
        """Wait for its end.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            All its tasks, in the order of the file.

        Raises:
            JobFailed: Not all of them succeeded.
            concurrent.futures.CancelledError: It was cancelled, or its runner killed.
            TimeoutError: It takes longer.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.status().tasks

    def exception(self, timeout: float | None = None) -> JobFailed | None:
        """Wait for its end and return why it failed; None if it did not.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            concurrent.futures.CancelledError: It was cancelled, or its runner killed.
            TimeoutError: It takes longer.
        """
        self._wait(timeout)
        status = self.status()
        if status.state == "interrupted":
            note = f": the runner's {status.runner_note}" if status.runner_note else ""
            raise CancelledError(
                f"{self.path.name} was stopped before its end{note}, "
                f"see {self.path / 'runner.log'}; "
                f"go on: tarmac run --resume {quoted(self.path)}"
            )
        return JobFailed(status) if status.state == "failed" else None

    def stdout(self, task: str | None = None) -> str:
        """Return what a task has printed so far.

        Args:
            task: Its name; not needed where there is only one.

        Raises:
            RequestError: There is no such task, or it has not begun.
        """
        return self._log(task, "stdout")

    def stderr(self, task: str | None = None) -> str:
        """Return what a task has printed to its standard error; see `stdout`."""
        return self._log(task, "stderr")

    def _wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._popen is not None:
            try:
                self._popen.wait(timeout)
            except subprocess.TimeoutExpired as error:
                raise TimeoutError(f"{self.path.name} is still running") from error
        # An engine may have tasks of it when its runner has ended.
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
                f"{self.path.name} has {len(begun)} tasks that have begun, say which",
                hint=", ".join(begun) or "None has begun.",
            )
        if name not in begun:
            raise unknown_name("task", name, {key: task.state for key, task in begun.items()})
        path = begun[name].directory / stream
        if not path.exists():
            return ""
        with read_errors(path), open_regular(path, within=self.path) as file:
            return file.read().decode("utf-8", "replace")


def _left_of(run: JobRun, status: RunStatus) -> Sequence[Task]:
    """Return tasks that stand for those of a pipeline which an engine has, to be ended."""
    stand_in = Job(name=run.job.name, command=("true",), options=run.job.options)
    (template,) = plan_tasks(stand_in, run.base)
    return [
        dataclasses.replace(template, name=task.name, index=task.index)
        for task in status.tasks
        if task.state in ("queued", "running")
    ]


def start_runner(
    run: JobRun,
    *,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    secrets: Mapping[str, Secret] | None = None,
    keep_going: bool = False,
) -> Handle:
    """Start the process that works on a run; what it prints goes to ``runner.log`` there.

    Args:
        run: The run to work on.
        concurrency: At most so many tasks at once.
        fake_gpus: Number of GPUs to pretend, to try a job without them. Default 0: real GPUs.
        secrets: What named secrets stand for here; references only, which are no secrets.
        keep_going: Start what is left also where the first tasks have all failed alike.

    Raises:
        RequestError: A named secret stands for another named one.
    """
    arguments = runner_options(concurrency, fake_gpus, secrets, keep_going=keep_going)
    options = ["--resume", str(run.path), *arguments]
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


def runner_options(
    concurrency: int | None,
    fake_gpus: int,
    secrets: Mapping[str, Secret] | None,
    *,
    keep_going: bool = False,
) -> list[str]:
    """Return the options of ``tarmac run`` that say what a run does not remember.

    Raises:
        RequestError: A named secret stands for another named one.
    """
    options = []
    if concurrency is not None:
        options += ["--jobs", str(concurrency)]
    if fake_gpus:
        options += ["--fake-gpus", str(fake_gpus)]
    if keep_going:
        options.append("--keep-going")
    for name, secret in (secrets or {}).items():
        options += ["--secret", f"{name}={_secret_location(name, secret)}"]
    return options


def _secret_location(name: str, secret: Secret) -> str:
    if secret.env is not None:
        return f"env:{secret.env}"
    if secret.file is not None:
        # A runner that is a job begins in another directory.
        return f"file:{expanded(secret.file).absolute()}"
    raise RequestError(
        f"secrets: {name!r} stands for {secret}, which is no place on this machine",
        hint="Say env=VARIABLE or file=PATH",
    )


def attach(reference: str, output: str | Path | None = None) -> Handle:
    """Return the handle of a run that was submitted before.

    Args:
        reference: Its directory, its name, the beginning of its name, or ``latest``.
        output: Where runs lie; by default ``TARMAC_RUNS`` or ``./runs``.

    Raises:
        RequestError: There is none, or several.
    """
    return Handle(find_run(reference, Path(output) if output is not None else None).path)

"""The Python API of jobs: `run`, and `submit` with a handle shaped like `concurrent.futures`."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.errors import RequestError, TarmacError, unknown_name
from tarmac.jobs.job_run import create_run, find_run, prepare, work_on
from tarmac.jobs.model import Job
from tarmac.jobs.reader import read_job
from tarmac.jobs.scheduler import Silent
from tarmac.jobs.secrets import read_secret_mapping
from tarmac.jobs.status import note_runner, read_status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tarmac.jobs.job_run import JobRun
    from tarmac.jobs.model import Secret
    from tarmac.jobs.scheduler import Reporter
    from tarmac.jobs.status import RunStatus, TaskStatus

__all__ = ["Handle", "JobFailed", "attach", "run", "start_runner", "submit"]

# How often a runner of another process is looked at; an own one is waited for.
_LOOK_EVERY_S = 0.1


class JobFailed(TarmacError):  # noqa: N818 - named for what has happened, as CancelledError is
    """A job's tasks did not all succeed.

    Attributes:
        tasks: Those that did not.
    """

    def __init__(self, status: RunStatus) -> None:
        self.tasks = [task for task in status.tasks if task.state != "succeeded"]
        failed = [task for task in self.tasks if task.state == "failed"]
        first = failed[0] if failed else None
        said = f": {first.name}: {first.reason}" if first else ""
        super().__init__(
            f"{len(self.tasks)} of {status.num_tasks} tasks did not succeed{said}",
            hint=f"Logs: {first.directory if first else status.path}\n"
            f"Again what has not succeeded: tarmac run --resume {status.path}",
        )


@dataclasses.dataclass(frozen=True)
class Handle:
    """A submitted job. Its runner goes on when this process ends.

    Attributes:
        path: The run's directory.
    """

    path: Path
    _popen: subprocess.Popen[bytes] | None = dataclasses.field(default=None, repr=False)

    def status(self) -> RunStatus:
        """Return its state."""
        if self._popen is not None:
            self._popen.poll()
        return read_status(self.path)

    def running(self) -> bool:
        """Whether its runner is at work."""
        return self.status().state == "running"

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return not self.running()

    def cancelled(self) -> bool:
        """Whether it has ended before all its tasks had: cancelled, or its runner killed."""
        return self.status().state == "interrupted"

    def cancel(self) -> bool:
        """Ask it to end: its tasks get SIGTERM, and SIGKILL after ten seconds.

        Returns:
            Whether it was running.

        Raises:
            RequestError: It is another user's, or at work on another machine.
        """
        status = self.status()
        runner = status.runner
        if runner is None:
            if status.state == "running":
                raise RequestError(
                    f"{self.path.name} is at work on another machine", hint="Cancel it there."
                )
            return False
        try:
            return runner.send(signal.SIGTERM)
        except PermissionError as error:
            raise RequestError(
                f"{self.path.name} is another user's: process {runner.pid} may not be ended",
                hint="Ask who has started it, or be root.",
            ) from error

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
            raise CancelledError(
                f"{self.path.name} was stopped before its end, see {self.path / 'runner.log'}; "
                f"go on: tarmac run --resume {self.path}"
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
            return
        while self.running():
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{self.path.name} is still running")
            time.sleep(_LOOK_EVERY_S)

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
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def submit(
    job: Job | str | Path,
    *,
    base: str | Path = ".",
    output: str | Path | None = None,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    secrets: Mapping[str, Secret] | None = None,
    on: str = "local",
) -> Handle:
    r"""Start a job in the background and return at once.

    Args:
        job: The job, or the path of its file.
        base: What its relative paths start from; the file's directory where it is a file.
        output: Where the run's directory is made; by default ``TARMAC_RUNS`` or ``./runs``.
        concurrency: At most so many tasks at once; by default as many as fit.
        fake_gpus: GPUs to pretend.
        secrets: What named secrets stand for here, on top of the user's configuration.
        on: Where its tasks run, one of `executor_names`.

    Raises:
        RequestError: It cannot be done; nothing was started.

    Example:
        >>> import tarmac
        >>> from tarmac.jobs import Job
        >>> handle = tarmac.submit(Job(name="hello", command=("echo", "hello")))  # doctest: +SKIP
        >>> handle.result(timeout=60); handle.stdout()  # doctest: +SKIP
        'hello\n'
    """
    mapping = read_secret_mapping() | dict(secrets or {})
    made = _make_run(job, base, output, mapping, fake_gpus=fake_gpus, on=on)
    # The runner reads the configuration itself.
    return start_runner(made, concurrency=concurrency, fake_gpus=fake_gpus, secrets=secrets)


def run(
    job: Job | str | Path,
    *,
    base: str | Path = ".",
    output: str | Path | None = None,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    secrets: Mapping[str, Secret] | None = None,
    on: str = "local",
    reporter: Reporter | None = None,
) -> Handle:
    r"""Run a job to its end. Its tasks end with this process.

    Args:
        job: The job, or the path of its file.
        base: What relative paths start from.
        output: Where the run's directory is made.
        concurrency: At most so many tasks at once.
        fake_gpus: GPUs to pretend.
        secrets: What named secrets stand for here.
        on: Where its tasks run.
        reporter: Receives progress; default none.

    Returns:
        The handle of what has run.

    Raises:
        RequestError: It cannot be done; nothing was started.
        JobFailed: Not all tasks succeeded.

    Example:
        >>> import tarmac
        >>> from tarmac.jobs import Job
        >>> tarmac.run(Job(name="hello", command=("echo", "hello"))).stdout()  # doctest: +SKIP
        'hello\n'
    """
    mapping = read_secret_mapping() | dict(secrets or {})
    made = _make_run(job, base, output, mapping, fake_gpus=fake_gpus, on=on)
    work_on(
        made,
        reporter or Silent(),
        concurrency=concurrency,
        fake_gpus=fake_gpus,
        mapping=mapping,
    )
    handle = Handle(made.path)
    handle.result()
    return handle


def _make_run(
    job: Job | str | Path,
    base: str | Path,
    output: str | Path | None,
    secrets: Mapping[str, Secret],
    *,
    fake_gpus: int,
    on: str,
) -> JobRun:
    if not isinstance(job, Job):
        base = Path(job).resolve().parent
        job = read_job(Path(job))
    tasks = prepare(job, Path(base), secrets, fake_gpus=fake_gpus, executor=on)
    where = Path(output) if output is not None else None
    return create_run(job, Path(base), tasks, where, executor=on)


def start_runner(
    run: JobRun,
    *,
    concurrency: int | None = None,
    fake_gpus: int = 0,
    secrets: Mapping[str, Secret] | None = None,
) -> Handle:
    """Start the process that works on a run; what it prints goes to ``runner.log`` there.

    Args:
        run: The run to work on.
        concurrency: At most so many tasks at once.
        fake_gpus: GPUs to pretend.
        secrets: What named secrets stand for here; references only, which are no secrets.

    Raises:
        RequestError: A named secret stands for another named one.
    """
    options = ["--resume", str(run.path)]
    if concurrency is not None:
        options += ["--jobs", str(concurrency)]
    if fake_gpus:
        options += ["--fake-gpus", str(fake_gpus)]
    for name, secret in (secrets or {}).items():
        options += ["--secret", f"{name}={_secret_location(name, secret)}"]
    with (run.path / "runner.log").open("ab") as log:
        popen = subprocess.Popen(
            [sys.executable, "-m", "tarmac", "run", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    note_runner(run.path, popen.pid)
    return Handle(run.path, popen)


def _secret_location(name: str, secret: Secret) -> str:
    if secret.env is not None:
        return f"env:{secret.env}"
    if secret.file is not None:
        return f"file:{secret.file}"
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

"""Tasks on this machine: as processes or containers, within what the machine has."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import selectors
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tarmac.errors import TarmacError
from tarmac.jobs._cgroup import make_memory_group
from tarmac.jobs._containers import container_command, find_engine, pull_with_login
from tarmac.jobs._environments import build_venv
from tarmac.jobs._inputs import fetch_inputs
from tarmac.jobs._job import Container, Venv
from tarmac.jobs._outputs import keep_outputs
from tarmac.jobs._plan import thread_variables
from tarmac.jobs._process import MARK, Process, guarded, start
from tarmac.jobs._secrets import resolve_secrets, secret_variables
from tarmac.jobs._shared import within_run
from tarmac.jobs.executors._base import Busy, Finished, is_retried

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from tarmac.jobs._job import Secret
    from tarmac.jobs._machine import Machine
    from tarmac.jobs._plan import Task
    from tarmac.jobs.executors._base import Attempt, Grant, Outcome

__all__ = ["LocalExecutor"]

# How long a task may take to end by itself once asked to.
_GRACE_S = 10.0

# How often memory is looked at while any is limited.
_LOOK_EVERY_S = 0.5

_THREADS = 4

# A disk with less than this cannot take what a program says at its end.
_FULL_BYTES = 2**16


@dataclasses.dataclass
class _Active:
    """An attempt that has its resources: in preparation, at work, or its outputs on their way."""

    attempt: Attempt
    grant: Grant
    process: Process | None = None
    future: Future[object] | None = None
    finished: Finished | None = None


class LocalExecutor:
    """Starts tasks on this machine.

    While it exists, a guardian process ends its tasks should this process be killed.

    Args:
        machine: What tasks may take.
        base: What relative paths of inputs and outputs start from: the job file's directory.
        shared: Where tasks keep what is for other tasks of the run.
        containers: The containers that tasks will ask for.
        mapping: What names of secrets stand for here.
        secret_variables: Of this process, those that hold a secret of some task; only the tasks
            that ask for it inherit them.

    Raises:
        RequestError: A container's engine does not answer.
    """

    name = "local"

    def __init__(
        self,
        machine: Machine,
        base: Path,
        shared: Path,
        *,
        containers: Sequence[Container] = (),
        mapping: Mapping[str, Secret] | None = None,
        secret_variables: Collection[str] = (),
    ) -> None:
        self._machine = machine
        self._base = base
        self._shared = shared
        self._mapping = mapping or {}
        self._secret_variables = secret_variables
        self._mark = secrets.token_hex(8)
        self._active: dict[int, _Active] = {}
        self._ended: list[Finished] = []
        self._stopping = False
        with contextlib.ExitStack() as opened:
            wanted = dict.fromkeys(container.engine for container in containers)
            self._engines = {name: find_engine(name) for name in wanted}
            engines = tuple(dict.fromkeys(self._engines.values()))
            opened.enter_context(guarded(self._mark, engines))
            self._threads = opened.enter_context(ThreadPoolExecutor(_THREADS, "tarmac-task"))
            self._selector = opened.enter_context(selectors.DefaultSelector())
            self._wake_read, self._wake_write = os.pipe()
            opened.callback(os.close, self._wake_read)
            opened.callback(os.close, self._wake_write)
            os.set_blocking(self._wake_write, False)
            self._selector.register(self._wake_read, selectors.EVENT_READ)
            self._opened = opened.pop_all()

    def refuse(self, tasks: Sequence[Task]) -> None:
        """Raise a RequestError for a task that needs more than the whole machine has."""
        self._machine.refuse_what_never_fits(tasks)

    def start(self, attempt: Attempt) -> Grant | Busy:
        """Begin an attempt where there is room; see `Executor`."""
        task = attempt.task
        grant = self._machine.take(task.resources)
        if grant is None:
            return Busy.NO_GPU if self._machine.has_room(task.resources) else Busy.FULL
        active = self._active[task.index] = _Active(attempt, grant)
        if task.inputs or isinstance(task.environment, (Venv, Container)):
            active.future = self._threads.submit(self._prepare, attempt)
            active.future.add_done_callback(self._wake)
        else:
            self._launch(active, {})
        return grant

    def wait(self, patience_s: float) -> Sequence[Finished]:
        """Return attempts that have ended; see `Executor`."""
        deadline = time.monotonic() + patience_s
        while not self._ended:
            now = time.monotonic()
            pause_s = min(deadline - now, self._next_look(now))
            for key, _ in self._selector.select(max(0.0, pause_s)):
                if key.fd == self._wake_read:
                    os.read(self._wake_read, 4096)
            self._look()
            if time.monotonic() >= deadline:
                break
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> None:
        """End all attempts; see `Executor`."""
        self._stopping = True
        for active in self._active.values():
            if active.process is not None:
                active.process.ask_to_end("the run was stopped", _GRACE_S)

    def close(self) -> None:
        """Let go of everything; see `Executor`."""
        self._opened.close()

    def _next_look(self, now: float) -> float:
        """Return for how many seconds nothing needs to be looked at."""
        times = []
        for active in self._active.values():
            if active.process is not None:
                times += active.process.times_to_look(active.attempt.task.timeout_s)
                if active.attempt.task.resources.memory is not None:
                    times.append(now + _LOOK_EVERY_S)
        return min(times, default=float("inf")) - now

    def _prepare(self, attempt: Attempt) -> Mapping[str, str]:
        """Bring what a task needs; return the variables of its environment."""
        task = attempt.task
        work = attempt.directory / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        inputs = [
            given.model_copy(update={"source": within_run(given.source, self._shared)})
            for given in task.inputs
        ]
        fetch_inputs(inputs, self._base, work)
        if isinstance(task.environment, Venv):
            venv = build_venv(task.environment, self._base)
            path = os.environ.get("PATH", "")
            return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}:{path}"}
        if isinstance(task.environment, Container) and task.environment.login is not None:
            secret = {"login": task.environment.login}
            credentials = resolve_secrets(secret, os.environ, self._mapping, self._base)["login"]
            engine = self._engines[task.environment.engine]
            pull_with_login(engine, task.environment, credentials)
        return {}

    def _wake(self, _: object) -> None:
        # A full pipe wakes as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _launch(self, active: _Active, variables: Mapping[str, str]) -> None:
        attempt, grant = active.attempt, active.grant
        task, directory = attempt.task, attempt.directory
        work = directory / "work"
        own = _variables(attempt, grant)
        group = None
        try:
            work.mkdir(parents=True, exist_ok=True)
            hidden = resolve_secrets(task.secrets, os.environ, self._mapping, self._base)
            command: Sequence[str] = task.command
            kill_command: Sequence[str] = ()
            if isinstance(task.environment, Container):
                command, kill_command = self._in_container(active, own, [*hidden])
            else:
                own = {"CUDA_VISIBLE_DEVICES": ",".join(grant.gpus)} | own
                if grant.memory:
                    name = f"tarmac-{self._mark}-{task.index}-{attempt.number}"
                    group = make_memory_group(name, grant.memory)
            active.process = start(
                command,
                directory=work,
                environment={
                    **self._inherited(task),
                    **variables,
                    **own,
                    **hidden,
                    MARK: self._mark,
                },
                stdout=directory / "stdout",
                stderr=directory / "stderr",
                kill_command=kill_command,
                memory_group=group,
            )
        except (OSError, TarmacError, ValueError) as error:
            if group is not None:
                group.remove()
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            program = task.command[0] if task.command else task.name
            self._conclude(active, "failed", f"{program}: {reason}")
            return
        self._selector.register(active.process.pidfd, selectors.EVENT_READ)

    def _inherited(self, task: Task) -> dict[str, str]:
        """Return the variables of this process without the secrets of other tasks."""
        others = {*self._secret_variables} - secret_variables([task], self._mapping)
        return {name: value for name, value in os.environ.items() if name not in others}

    def _in_container(
        self, active: _Active, variables: Mapping[str, str], secret_names: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return what runs a task in a container, and what kills it."""
        attempt = active.attempt
        task, container = attempt.task, attempt.task.environment
        assert isinstance(container, Container)
        engine = self._engines[container.engine]
        name = f"tarmac-{self._mark}-{task.index}-{attempt.number}"
        command = container_command(
            task,
            container,
            active.grant,
            engine=engine,
            name=name,
            mark=self._mark,
            work=attempt.directory / "work",
            base=self._base,
            variables=variables,
            secret_names=secret_names,
        )
        return command, (engine, "kill", name)

    def _look(self) -> None:
        """See what has ended or gone too far."""
        now = time.monotonic()
        for active in [*self._active.values()]:
            if active.future is not None:
                if active.future.done():
                    self._proceed(active)
            elif active.process is not None:
                self._look_at(active, active.process, now)

    def _proceed(self, active: _Active) -> None:
        """Go on after what a thread has done: a preparation, or outputs."""
        future, active.future = active.future, None
        assert future is not None
        error = future.exception()
        if active.finished is not None:
            problems = [str(error)] if error is not None else future.result()
            assert isinstance(problems, list)
            self._finish(dataclasses.replace(active.finished, problems=tuple(problems)))
        elif error is not None:
            self._conclude(active, "failed", f"not started: {error}")
        elif self._stopping:
            self._conclude(active, "interrupted", "the run was stopped")
        else:
            variables = future.result()
            assert isinstance(variables, dict)
            self._launch(active, variables)

    def _look_at(self, active: _Active, process: Process, now: float) -> None:
        task = active.attempt.task
        if process.popen.poll() is None:
            process.enforce(now, task.timeout_s, task.resources.memory, _GRACE_S)
            return
        self._selector.unregister(process.pidfd)
        seconds = now - process.started
        code = process.finish(task.resources.memory)
        active.process = None
        if process.stopped_for:
            outcome: Outcome = "interrupted" if self._stopping else "failed"
            self._conclude(active, outcome, process.stopped_for, code, seconds)
        elif code == 0:
            self._conclude(active, "succeeded", "", 0, seconds)
        else:
            words = f"exit code {code}" if code > 0 else f"signal {-code}"
            # Its own words on this may not have found room either.
            if shutil.disk_usage(active.attempt.directory).free < _FULL_BYTES:
                words += ", and no space is left on its disk"
            self._conclude(active, "failed", words, code, seconds)

    def _conclude(
        self,
        active: _Active,
        outcome: Outcome,
        reason: str,
        exit_code: int | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Keep an attempt's outputs, unless another one follows, and let it end."""
        attempt = active.attempt
        active.finished = Finished(attempt, outcome, reason, exit_code, seconds)
        keeps = attempt.task.outputs and outcome != "interrupted"
        if not keeps or is_retried(attempt, outcome, exit_code):
            self._finish(active.finished)
            return
        outputs = [
            output.model_copy(update={"to": within_run(output.to, self._shared)})
            for output in attempt.task.outputs
        ]
        active.future = self._threads.submit(
            keep_outputs,
            outputs,
            attempt.directory / "work",
            self._base,
            succeeded=outcome == "succeeded",
        )
        active.future.add_done_callback(self._wake)

    def _finish(self, finished: Finished) -> None:
        active = self._active.pop(finished.attempt.task.index)
        self._machine.give_back(active.grant)
        self._ended.append(finished)


def _variables(attempt: Attempt, grant: Grant) -> dict[str, str]:
    """Return what every task sees, its own ``env`` included."""
    # What shares all CPUs counts them itself.
    shares = attempt.task.resources.shares_cpus
    return {
        **({} if shares else thread_variables(grant.cpus)),
        **attempt.task.env,
        "TARMAC_TASK": attempt.task.name,
        "TARMAC_TASK_INDEX": str(attempt.task.index),
        "TARMAC_ATTEMPT": str(attempt.number),
    }

"""Tasks on this machine: processes or containers, within the machine's resources.

`Machine` grants an attempt its resources, `Stagers` stage its inputs in, and a `Launcher` starts
its program. This module watches the program, `judge` gives the verdict, and `Stagers` keep the
outputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import selectors
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from tarmac.environments import engine_program
from tarmac.errors import TarmacError, short_reason
from tarmac.executors.events import Began, Finished, Queued
from tarmac.executors.interface import Attempt, Busy, is_retried
from tarmac.executors.launching import Launcher, program_of
from tarmac.executors.outcome import Verdict, judge
from tarmac.executors.stagers import Stagers
from tarmac.executors.staging import Answer, StageIn, StageOut
from tarmac.node import GpuWatch
from tarmac.processes import Process, guarded, parent_of_groups
from tarmac.tasks.machine import Grant, Machine
from tarmac.tasks.model import BuiltEnvironment, Container, Secret, Venv
from tarmac.tasks.plan import Task

# Interval of memory checks while a task has a memory limit.
_LOOK_EVERY_S = 0.5

# Most downloads and installers at once: more would only share the same network and disk.
_MAX_STAGERS = 4

_STOPPED = "the run was stopped"

# The engine's exit code for a container that SIGKILL ended.
_KILLED = 128 + signal.SIGKILL


@dataclasses.dataclass
class _Active:
    """An attempt that holds resources: in staging, or with its program running.

    Attributes:
        attempt: Attempt that holds the resources.
        grant: CPUs, memory and GPUs that the attempt holds.
        process: Process of its program; None while the program does not run.
        finished: Result of its program while its outputs are staged out; None before.
        end_reason: Reason to end the attempt, in words; empty while nobody requested its end.
        watch: Watch over the use of its GPUs while its program runs; None for none.
        look_at: Time of the next look at its memory, by the monotonic clock.
        withdraw_at: Time to stop waiting for its outputs, by the monotonic clock; None for no
            limit.
    """

    attempt: Attempt
    grant: Grant
    process: Process | None = None
    watch: GpuWatch | None = None
    finished: Finished | None = None
    end_reason: str = ""
    look_at: float = 0.0
    withdraw_at: float | None = None


class LocalExecutor:
    """Runs tasks on this machine.

    A guardian process ends the tasks if this process is killed.

    Args:
        machine: CPUs, memory and GPUs that tasks may take.
        base: Directory that relative paths of inputs and outputs start from: the job file's.
        shared: Directory where tasks keep files for other tasks of the run.
        containers: Containers of the tasks, whose engines must be installed.
        mapping: Secrets of this machine, by the name that job files use. Default: none.
        secret_variables: Environment variables of this process that hold a task's secret. Only
            tasks that ask for a secret inherit its variable.
        grace_s: Seconds that a task may take to end after SIGTERM, and its outputs after the run is
            stopped. Default 10.

    Raises:
        RequestError: A container's engine is not installed.
    """

    def __init__(
        self,
        machine: Machine,
        base: Path,
        shared: Path,
        *,
        containers: Sequence[Container] = (),
        mapping: Mapping[str, Secret] | None = None,
        secret_variables: Collection[str] = (),
        grace_s: float = 10.0,
    ) -> None:
        self._machine = machine
        self._base = base
        self._shared = shared
        self._mapping = mapping or {}
        self._grace_s = grace_s
        self._mark = secrets.token_hex(8)
        self._active: dict[int, _Active] = {}
        self._ended: list[Finished] = []
        with contextlib.ExitStack() as opened:
            wanted = dict.fromkeys(container.engine for container in containers)
            self._engines: dict[str | None, str] = {name: engine_program(name) for name in wanted}
            engines = tuple(dict.fromkeys(self._engines.values()))
            opened.enter_context(guarded(self._mark, engines, parent_of_groups()))
            self._selector = opened.enter_context(selectors.DefaultSelector())
            self._stagers = Stagers(self._mark, _MAX_STAGERS, self._selector)
            opened.callback(self._stagers.close)
            self._launcher = Launcher(
                mark=self._mark,
                base=base,
                secrets=self._mapping,
                secret_variables=frozenset(secret_variables),
                engines=self._engines,
            )
            self._opened = opened.pop_all()

    @property
    def queues(self) -> bool:
        """Whether attempts wait in an engine's queue: never here."""
        return False

    def start(self, attempts: Sequence[Attempt]) -> Sequence[Began | Busy]:
        """Start the first attempts that fit; see `Executor`."""
        answers: list[Began | Busy] = []
        for attempt in attempts:
            answer = self._start(attempt)
            answers.append(answer)
            if isinstance(answer, Busy):
                break
        # Only the scheduler knows which tasks may overtake an attempt that does not fit.
        return answers + answers[-1:] * (len(attempts) - len(answers))

    def attach(
        self,
        make: Callable[[int, int], Attempt | None],  # noqa: ARG002 - the contract's
    ) -> Sequence[Queued | Began]:
        """Return nothing: the attempts of an earlier process ended with it."""
        return ()

    def detach(self) -> None:
        """Raise NotImplementedError: nothing would watch the tasks of this machine."""
        raise NotImplementedError("tasks of this machine end with their runner")

    def wait(self, patience_s: float) -> Sequence[Finished]:
        """Return the attempts that have ended; see `Executor`."""
        deadline = time.monotonic() + patience_s
        while not self._ended:
            now = time.monotonic()
            pause_s = min(deadline - now, self._next_look(now))
            self._selector.select(max(0.0, pause_s))
            self._look()
            if time.monotonic() >= deadline:
                break
        ended, self._ended = self._ended, []
        return ended

    def end(self, attempt: Attempt, reason: str, grace_s: float) -> None:
        """End one attempt; see `Executor`."""
        active = self._active.get(attempt.task.index)
        if active is not None and active.attempt is attempt:
            self._end(active, reason, grace_s)

    def stop(self) -> None:
        """End all attempts; see `Executor`."""
        for active in self._active.values():
            self._end(active, _STOPPED, self._grace_s)

    def close(self) -> None:
        """Release all resources; see `Executor`."""
        self._opened.close()

    def _start(self, attempt: Attempt) -> Began | Busy:
        task = attempt.task
        try:
            grant = self._machine.take(task.resources)
        except TarmacError as error:
            words = f"not started: {error}"
            self._ended.append(Finished(attempt, "failed", words, cause="start"))
            return Began(attempt, Grant(0.0, 0, (), 0.0))
        if grant is None:
            return Busy.NO_GPU if self._machine.has_room(task.resources) else Busy.FULL
        active = self._active[task.index] = _Active(attempt, grant)
        if task.inputs or isinstance(task.environment, (BuiltEnvironment, Container)):
            self._stage_in(attempt)
        else:
            self._launch(active, {})
        return Began(attempt, grant)

    def _next_look(self, now: float) -> float:
        """Return the seconds until the next check is due."""
        times = self._stagers.times_to_look()
        for active in self._active.values():
            if active.process is not None:
                times += active.process.times_to_look(active.attempt.task.timeout_s)
                if _watched_bytes(active.attempt.task) is not None:
                    times.append(active.look_at)
            elif active.withdraw_at is not None:
                times.append(active.withdraw_at)
        return min(times, default=float("inf")) - now

    def _end(self, active: _Active, reason: str, grace_s: float) -> None:
        active.end_reason = active.end_reason or reason
        if active.process is not None:
            active.process.ask_to_end(active.end_reason, grace_s)
        elif active.finished is not None:
            # The program has ended: its outputs may take as long as a program's grace period.
            active.withdraw_at = time.monotonic() + grace_s
        else:
            self._stagers.withdraw(active.attempt.task.index, active.end_reason, grace_s)

    def _stage_in(self, attempt: Attempt) -> None:
        task = attempt.task
        environment = task.environment
        engine = None
        if isinstance(environment, Container):
            engine = self._engines[environment.engine]
        if (
            isinstance(environment, Venv)
            and environment.needs_driver
            and self._machine.is_pretending
        ):
            environment = environment.chosen(with_gpus=False)
        request = StageIn(
            inputs=task.inputs,
            environment=environment,
            base=self._base,
            shared=self._shared,
            work=attempt.directory / "work",
            engine=engine,
            mapping=self._mapping,
            kept=attempt.kept,
        )
        self._stagers.submit(task.index, request)

    def _launch(self, active: _Active, variables: Mapping[str, str]) -> None:
        has_alone = active.grant.share == 1
        active.watch = GpuWatch(active.grant.gpus if has_alone else ())
        try:
            active.process = self._launcher.launch(active.attempt, active.grant, variables)
        except (OSError, TarmacError, ValueError) as error:
            reason = f"{program_of(active.attempt.task)}: {short_reason(error)}"
            self._conclude(active, Verdict("failed", reason, cause="start"))
            return
        self._selector.register(active.process.pidfd, selectors.EVENT_READ)

    def _look(self) -> None:
        """Check staging answers, ended programs and limits."""
        now = time.monotonic()
        for index, answer in self._stagers.answers(now):
            self._proceed(self._active[index], answer)
        for index, active in [*self._active.items()]:
            if active.process is not None:
                self._look_at(active, active.process, now)
            elif active.withdraw_at is not None and now >= active.withdraw_at:
                active.withdraw_at = None
                self._stagers.withdraw(index, active.end_reason, self._grace_s)

    def _proceed(self, active: _Active, answer: Answer) -> None:
        """Continue an attempt after staging: launch its program, or finish it."""
        if active.finished is not None:
            self._finish_with(active, active.finished, answer)
        elif active.end_reason:
            self._conclude(active, Verdict("interrupted", active.end_reason, cause="stop"))
        elif answer.error is not None:
            words = f"not started: {answer.error}"
            self._conclude(active, Verdict("failed", words, cause="start"))
        else:
            self._launch(active, answer.variables)

    def _finish_with(self, active: _Active, finished: Finished, answer: Answer) -> None:
        """Finish an attempt with the result of keeping its outputs."""
        if active.end_reason and answer.error == active.end_reason:
            reason = f"{active.end_reason} before its outputs were kept"
            finished = dataclasses.replace(
                finished, outcome="interrupted", reason=reason, cause="stop"
            )
        elif answer.error is not None:
            finished = dataclasses.replace(finished, problems=(answer.error,))
        else:
            finished = dataclasses.replace(finished, problems=tuple(answer.problems))
        self._finish(finished)

    def _look_at(self, active: _Active, process: Process, now: float) -> None:
        task = active.attempt.task
        if not process.has_ended():
            limit_bytes = None
            if now >= active.look_at:
                limit_bytes, active.look_at = _watched_bytes(task), now + _LOOK_EVERY_S
            process.enforce(now, task.timeout_s, limit_bytes, self._grace_s)
            return
        self._selector.unregister(process.pidfd)
        # The process may have started after `now` was read.
        seconds = max(0.0, now - process.started)
        code = process.finish(task.resources.memory)
        if code == _KILLED and not process.stopped_for:
            self._launcher.look_for_memory(active.attempt, process, seconds)
        active.process = None
        verdict = judge(process, code, active.attempt, is_asked=bool(active.end_reason))
        self._conclude(active, verdict, 0.0 if verdict.exit_code is None else seconds)

    def _conclude(self, active: _Active, verdict: Verdict, seconds: float = 0.0) -> None:
        """Keep an attempt's outputs unless a retry follows, then finish it."""
        attempt, outcome = active.attempt, verdict.outcome
        unused = active.watch.close(host="") if active.watch is not None else []
        active.watch = None
        active.finished = Finished(
            attempt,
            outcome,
            verdict.reason,
            verdict.exit_code,
            seconds,
            cause=verdict.cause,
            notes=unused if outcome == "succeeded" else (),
        )
        keeps = attempt.task.outputs and outcome != "interrupted"
        if not keeps or is_retried(attempt, outcome, verdict.exit_code, verdict.cause):
            self._finish(active.finished)
            return
        request = StageOut(
            outputs=attempt.task.outputs,
            base=self._base,
            shared=self._shared,
            work=attempt.directory / "work",
            succeeded=outcome == "succeeded",
        )
        self._stagers.submit(attempt.task.index, request)
        if active.end_reason:
            active.withdraw_at = time.monotonic() + self._grace_s

    def _finish(self, finished: Finished) -> None:
        active = self._active.pop(finished.attempt.task.index)
        self._machine.give_back(active.grant)
        self._ended.append(finished)


def _watched_bytes(task: Task) -> int | None:
    """Return the memory limit to enforce on a task's process; the engine limits a container."""
    return None if isinstance(task.environment, Container) else task.resources.memory

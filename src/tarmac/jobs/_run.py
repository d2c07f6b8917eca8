"""Runs a job's tasks on this machine, in order, within what the machine has."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import os
import re
import secrets
import selectors
import shutil
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal, Protocol

from tarmac.errors import TarmacError
from tarmac.jobs._containers import container_command, find_engine, log_in
from tarmac.jobs._environments import build_venv
from tarmac.jobs._inputs import fetch_inputs
from tarmac.jobs._job import Container, Venv
from tarmac.jobs._journal import Journal, read_journal
from tarmac.jobs._outputs import keep_outputs
from tarmac.jobs._process import MARK, Process, guarded, start
from tarmac.jobs._secrets import resolve_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tarmac.jobs._job import Secret
    from tarmac.jobs._machine import Grant, Machine
    from tarmac.jobs._plan import Task

__all__ = ["Ended", "Outcome", "Watcher", "run_tasks", "task_directory"]

Outcome = Literal["succeeded", "failed", "skipped", "interrupted"]

# How long a task may take to end by itself once asked to.
_GRACE_S = 10.0

# How often memory is looked at, and GPUs that other processes hold are asked for again.
_LOOK_EVERY_S = 0.5

_THREADS = 4


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a task ended.

    Attributes:
        task: Which.
        outcome: In a word.
        reason: In words, where it did not succeed.
        exit_code: Of its last attempt; None where it was not started, negative for a signal.
        seconds: Its last attempt took.
        attempts: So many were made.
        problems: What went wrong with its outputs.
    """

    task: Task
    outcome: Outcome
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    attempts: int = 0
    problems: Sequence[str] = ()


class Watcher(Protocol):
    """Is told how a run goes."""

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """An attempt of a task begins."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """An attempt failed, and another one follows."""

    def ended(self, ended: Ended) -> None:
        """A task is at its end."""


def task_directory(run: Path, task: Task) -> Path:
    """Return where a task's logs and its working directory are."""
    plain = re.sub(r"[^A-Za-z0-9._=,-]+", "_", task.name)[:80]
    return run / "tasks" / f"{task.index:06d}-{plain}"


def run_tasks(
    tasks: Sequence[Task],
    run: Path,
    base: Path,
    machine: Machine,
    watcher: Watcher,
    *,
    concurrency: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    mapping: Mapping[str, Secret] | None = None,
) -> Counter[Outcome]:
    """Run all tasks that have not succeeded yet.

    Args:
        tasks: In the order of the file.
        run: The run's directory, with its journal.
        base: The job file's directory.
        machine: What they may take.
        watcher: Is told how it goes.
        concurrency: At most so many at once; by default as many as fit.
        stop: Whether to end all that runs and stop; asked a few times a second.
        mapping: What names of secrets stand for here.

    Returns:
        How many tasks ended how.
    """
    with contextlib.ExitStack() as opened:
        mark = secrets.token_hex(8)
        containers = [t.environment for t in tasks if isinstance(t.environment, Container)]
        engines = dict.fromkeys(find_engine(container.engine) for container in containers)
        opened.enter_context(guarded(mark, tuple(engines)))
        done = _finished(run)
        journal = opened.enter_context(Journal(run / "journal.jsonl"))
        threads = opened.enter_context(ThreadPoolExecutor(_THREADS, "tarmac-task"))
        runner = _Runner(
            tasks,
            run=run,
            base=base,
            machine=machine,
            watcher=watcher,
            journal=journal,
            threads=threads,
            mark=mark,
            concurrency=concurrency or len(tasks) or 1,
            mapping=mapping or {},
        )
        opened.callback(runner.close)
        return runner.work(done, stop)


def _finished(run: Path) -> set[int]:
    """Return the numbers of the tasks that have succeeded in earlier sessions of a run."""
    journal = run / "journal.jsonl"
    if not journal.exists():
        return set()
    ended = (event for event in read_journal(journal) if event["event"] == "ended")
    return {event["task"] for event in ended if event["outcome"] == "succeeded"}


@dataclasses.dataclass
class _Active:
    """A task that has its resources: in preparation, at work, or its outputs on their way."""

    task: Task
    grant: Grant
    attempt: int
    process: Process | None = None
    future: Future[object] | None = None
    ended: Ended | None = None


class _Runner:
    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        run: Path,
        base: Path,
        machine: Machine,
        watcher: Watcher,
        journal: Journal,
        threads: ThreadPoolExecutor,
        mark: str,
        concurrency: int,
        mapping: Mapping[str, Secret],
    ) -> None:
        self._tasks = tasks
        self._run = run
        self._base = base
        self._machine = machine
        self._watcher = watcher
        self._journal = journal
        self._threads = threads
        self._mark = mark
        self._concurrency = concurrency
        self._mapping = mapping
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        # Tasks with GPUs wait in a queue of their own: where GPUs are short, others go on.
        self._ready: dict[bool, list[tuple[int, int, Task, int]]] = {False: [], True: []}
        self._later: list[tuple[float, int, Task, int]] = []
        self._active: dict[int, _Active] = {}
        self._left = Counter(task.spec for task in tasks if not task.is_last)
        self._waiting: dict[str, list[Task]] = {}
        self._missing: dict[int, int] = {}
        self._broken: set[str] = set()
        self._counts: Counter[Outcome] = Counter()
        self._stopping = False

    def close(self) -> None:
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def work(self, done: set[int], stop: Callable[[], bool]) -> Counter[Outcome]:
        last = [task for task in self._tasks if task.is_last]
        normal = [task for task in self._tasks if not task.is_last]
        self._enter(normal, done)
        has_work = any(task.index not in done for task in normal)
        self._loop(stop)
        for task in last:
            # What follows all others follows them again where some were done again.
            if not has_work and task.index in done:
                self._counts["succeeded"] += 1
            elif not self._stopping:
                self._push(task, 1)
        self._loop(stop)
        return self._counts

    def _enter(self, tasks: Sequence[Task], done: set[int]) -> None:
        """Queue the tasks that need nothing, and note what the others need."""
        for task in tasks:
            if task.index in done:
                self._left[task.spec] -= 1
                self._counts["succeeded"] += 1
        for task in tasks:
            if task.index in done:
                continue
            missing = [spec for spec in task.needs if self._left[spec]]
            if not missing:
                self._push(task, 1)
                continue
            self._missing[task.index] = len(missing)
            for spec in missing:
                self._waiting.setdefault(spec, []).append(task)

    def _push(self, task: Task, attempt: int) -> None:
        needs_gpus = task.resources.gpus > 0
        heapq.heappush(self._ready[needs_gpus], (-task.priority, task.index, task, attempt))

    def _loop(self, stop: Callable[[], bool]) -> None:
        while self._active or self._later or any(self._ready.values()):
            if not self._stopping and stop():
                self._stop()
            if not self._stopping:
                self._start_what_fits()
            elif not self._active:
                return
            for key, _ in self._selector.select(self._patience()):
                if key.fd == self._wake_read:
                    os.read(self._wake_read, 4096)
            self._look()

    def _patience(self) -> float:
        """Return how long nothing needs to be looked at."""
        now = time.monotonic()
        times = [when for when, *_ in self._later[:1]]
        for active in self._active.values():
            if active.process is not None:
                if active.process.kill_at is not None:
                    times.append(active.process.kill_at)
                if active.task.timeout_s is not None:
                    times.append(active.process.started + active.task.timeout_s)
        return min(_LOOK_EVERY_S, max(0.0, min(times, default=now + _LOOK_EVERY_S) - now))

    def _stop(self) -> None:
        self._stopping = True
        self._later.clear()
        for queue in self._ready.values():
            queue.clear()
        for active in self._active.values():
            if active.process is not None:
                active.process.ask_to_end("the run was stopped", _GRACE_S)

    def _start_what_fits(self) -> None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, task, attempt = heapq.heappop(self._later)
            self._push(task, attempt)
        short = {False: False, True: False}
        while len(self._active) < self._concurrency:
            heads = [kind for kind in (False, True) if self._ready[kind] and not short[kind]]
            if not heads:
                return
            kind = min(heads, key=lambda kind: self._ready[kind][0][:2])
            _, _, task, attempt = self._ready[kind][0]
            grant = self._machine.take(task.resources)
            if grant is None:
                # Nothing overtakes a task that waits for CPUs or memory, or it might wait for ever.
                if not self._machine.has_room(task.resources):
                    return
                short[kind] = True
                continue
            heapq.heappop(self._ready[kind])
            self._begin(task, attempt, grant)

    def _begin(self, task: Task, attempt: int, grant: Grant) -> None:
        active = self._active[task.index] = _Active(task, grant, attempt)
        self._watcher.started(task, attempt, grant)
        if task.inputs or not _is_plain(task):
            active.future = self._threads.submit(self._prepare, task)
            active.future.add_done_callback(self._wake)
        else:
            self._launch(active, {})

    def _prepare(self, task: Task) -> Mapping[str, str]:
        """Bring what a task needs; return the variables of its environment."""
        work = task_directory(self._run, task) / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        fetch_inputs(task.inputs, self._base, work)
        if isinstance(task.environment, Venv):
            venv = build_venv(task.environment, self._base)
            path = os.environ.get("PATH", "")
            return {"VIRTUAL_ENV": str(venv), "PATH": f"{venv / 'bin'}:{path}"}
        if isinstance(task.environment, Container) and task.environment.login is not None:
            secret = {"login": task.environment.login}
            credentials = resolve_secrets(secret, os.environ, self._mapping)["login"]
            log_in(find_engine(task.environment.engine), task.environment.image, credentials)
        return {}

    def _wake(self, _: object) -> None:
        # A full pipe wakes as well.
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _launch(self, active: _Active, variables: Mapping[str, str]) -> None:
        task, grant = active.task, active.grant
        directory = task_directory(self._run, task)
        work = directory / "work"
        work.mkdir(parents=True, exist_ok=True)
        threads = str(max(1, int(grant.cpus)))
        own = {
            "OMP_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            **task.env,
            "TARMAC_TASK": task.name,
            "TARMAC_TASK_INDEX": str(task.index),
            "TARMAC_ATTEMPT": str(active.attempt),
        }
        self._journal.write("started", task=task.index, attempt=active.attempt)
        try:
            hidden = resolve_secrets(task.secrets, os.environ, self._mapping)
            command: Sequence[str] = task.command
            kill_command: Sequence[str] = ()
            if isinstance(task.environment, Container):
                command, kill_command = self._in_container(active, own, [*hidden], work)
            else:
                own = {"CUDA_VISIBLE_DEVICES": ",".join(grant.gpus)} | own
            active.process = start(
                command,
                directory=work,
                environment={**os.environ, **variables, **own, **hidden, MARK: self._mark},
                stdout=directory / "stdout",
                stderr=directory / "stderr",
                kill_command=kill_command,
            )
        except (OSError, TarmacError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._conclude(
                active,
                Ended(
                    task, "failed", f"{task.command[0] if task.command else task.name}: {reason}"
                ),
            )
            return
        self._selector.register(active.process.pidfd, selectors.EVENT_READ)

    def _in_container(
        self, active: _Active, variables: Mapping[str, str], secret_names: Sequence[str], work: Path
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Return what runs a task in a container, and what kills it."""
        task, container = active.task, active.task.environment
        assert isinstance(container, Container)
        engine = find_engine(container.engine)
        name = f"tarmac-{self._mark}-{task.index}-{active.attempt}"
        command = container_command(
            task,
            container,
            active.grant,
            engine=engine,
            name=name,
            mark=self._mark,
            work=work,
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
        if active.ended is not None:
            problems = [str(error)] if error is not None else future.result()
            assert isinstance(problems, list)
            self._end(dataclasses.replace(active.ended, problems=tuple(problems)))
        elif error is not None:
            self._conclude(active, Ended(active.task, "failed", f"not started: {error}"))
        elif self._stopping:
            self._end(Ended(active.task, "interrupted", "the run was stopped"))
        else:
            variables = future.result()
            assert isinstance(variables, dict)
            self._launch(active, variables)

    def _look_at(self, active: _Active, process: Process, now: float) -> None:
        task = active.task
        if process.popen.poll() is None:
            limit = task.timeout_s
            if limit is not None and now - process.started > limit:
                process.ask_to_end(f"its time limit of {limit:g} s", _GRACE_S)
            if task.resources.memory is not None and not process.stopped_for:
                held = process.memory_bytes()
                if held > task.resources.memory:
                    words = f"{held / 2**20:.0f} of {task.resources.memory / 2**20:.0f} MiB"
                    process.ask_to_end(f"it took {words} of memory", 0.0)
            if process.kill_at is not None and now >= process.kill_at:
                process.kill()
            return
        self._selector.unregister(process.pidfd)
        seconds = now - process.started
        code = process.finish()
        active.process = None
        if process.stopped_for:
            outcome: Outcome = "interrupted" if self._stopping else "failed"
            ended = Ended(task, outcome, process.stopped_for, code, seconds)
        elif code == 0:
            ended = Ended(task, "succeeded", "", 0, seconds)
        else:
            words = f"exit code {code}" if code > 0 else f"signal {-code}"
            ended = Ended(task, "failed", words, code, seconds)
        self._conclude(active, ended)

    def _conclude(self, active: _Active, ended: Ended) -> None:
        """Try again, keep outputs, or end."""
        task = active.task
        ended = dataclasses.replace(ended, attempts=active.attempt)
        codes = task.retries.exit_codes
        is_retried = ended.outcome == "failed" and (not codes or ended.exit_code in codes)
        if is_retried and active.attempt <= task.retries.count:
            delay_s = task.retries.backoff * 2 ** (active.attempt - 1)
            self._journal.write(
                "retried", task=task.index, attempt=active.attempt, reason=ended.reason
            )
            self._watcher.retrying(task, ended.reason, delay_s)
            self._machine.give_back(active.grant)
            del self._active[task.index]
            when = time.monotonic() + delay_s
            heapq.heappush(self._later, (when, task.index, task, active.attempt + 1))
        elif task.outputs and ended.outcome != "interrupted":
            active.ended = ended
            active.future = self._threads.submit(
                keep_outputs,
                task.outputs,
                task_directory(self._run, task) / "work",
                self._base,
                succeeded=ended.outcome == "succeeded",
            )
            active.future.add_done_callback(self._wake)
        else:
            self._end(ended)

    def _end(self, ended: Ended) -> None:
        task = ended.task
        if ended.problems and ended.outcome == "succeeded":
            reason = f"its outputs were not kept: {ended.problems[0]}"
            ended = dataclasses.replace(ended, outcome="failed", reason=reason)
        active = self._active.pop(task.index, None)
        if active is not None:
            self._machine.give_back(active.grant)
        self._record(ended)
        if task.is_last:
            return
        if ended.outcome == "succeeded":
            self._left[task.spec] -= 1
            if not self._left[task.spec]:
                self._release(task.spec)
        elif ended.outcome == "failed":
            self._skip_after(task.spec)

    def _record(self, ended: Ended) -> None:
        self._counts[ended.outcome] += 1
        self._journal.write(
            "ended",
            task=ended.task.index,
            name=ended.task.name,
            outcome=ended.outcome,
            reason=ended.reason,
            exit_code=ended.exit_code,
            seconds=round(ended.seconds, 3),
            attempts=ended.attempts,
            problems=[*ended.problems],
        )
        self._watcher.ended(ended)

    def _release(self, spec: str) -> None:
        for task in self._waiting.pop(spec, ()):
            # Another one that it needs may have failed before.
            if task.index in self._missing:
                self._missing[task.index] -= 1
                if not self._missing[task.index] and not self._stopping:
                    del self._missing[task.index]
                    self._push(task, 1)

    def _skip_after(self, spec: str) -> None:
        """Skip all that needs what has failed, and what needs that."""
        if spec in self._broken:
            return
        specs = [spec]
        while specs:
            broken = specs.pop()
            self._broken.add(broken)
            for task in self._waiting.pop(broken, ()):
                if self._missing.pop(task.index, None) is None:
                    continue
                self._record(Ended(task, "skipped", f"{broken} has failed"))
                if task.spec not in self._broken:
                    specs.append(task.spec)


def _is_plain(task: Task) -> bool:
    return not isinstance(task.environment, (Venv, Container))

"""An executor under test, and a watch that collects its events."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.jobs import (
    Attempt,
    Began,
    Busy,
    Event,
    Executor,
    ExecutorKind,
    Finished,
    Queued,
    Site,
    Task,
    parse_job,
    plan_tasks,
)

# How long a check waits for events that should come at once, or after the engine's queue.
PATIENCE_S = 120.0

# The name and the value of a variable of this process that holds a secret.
VAULT = ("TARMAC_TESTING_VAULT", "pssst-17")

_NUM_GPUS = 2


@dataclasses.dataclass(frozen=True)
class ExecutorCase:
    """An executor under test.

    Attributes:
        kind: Entry of the executor in the table of executors.
        directory: Empty directory for the tasks.
        options: Options of all jobs, by executor: ``{"slurm": {"partition": "low"}}``.
    """

    kind: ExecutorKind
    directory: Path
    options: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def tasks(self, job: str) -> list[Task]:
        """Return the tasks of a job from the text of its file."""
        parsed = parse_job(textwrap.dedent(job))
        options = {name: {**values} for name, values in self.options.items()}
        return [*plan_tasks(parsed.model_copy(update={"options": options}), self.directory)]

    def attempt(self, task: Task, number: int = 1) -> Attempt:
        """Return an attempt of a task, in the task's own directory."""
        return Attempt(task, number, self.directory / f"attempt-{task.index}")

    @contextlib.contextmanager
    def opened(self, tasks: Sequence[Task]) -> Iterator[Executor]:
        """Yield an executor for the tasks, and close it afterwards."""
        run = self.directory / "run"
        run.mkdir(exist_ok=True)
        site = Site(
            tasks=tasks,
            run=run,
            base=self.directory,
            shared=self.directory / "shared",
            fake_gpus=_NUM_GPUS,
        )
        with contextlib.closing(self.kind.open(site)) as executor:
            yield executor

    @contextlib.contextmanager
    def watched(self, tasks: Sequence[Task]) -> Iterator[Watch]:
        """Yield a watch of a new executor without earlier attempts; end all attempts afterwards."""
        with self.opened(tasks) as executor:
            assert not executor.attach(lambda *_: None), "a new executor has earlier attempts"
            watch = Watch(executor)
            yield watch
            watch.stop()

    def finish(self, job: str, number: int = 1) -> tuple[list[Attempt], dict[str, Finished]]:
        """Run the independent tasks of a job until all have ended.

        Args:
            job: Text of the job file.
            number: Number of the attempt, from 1. Default 1.

        Returns:
            The attempts in the order of the file, and their ends by the name of the task.
        """
        tasks = self.tasks(job)
        attempts = [self.attempt(task, number) for task in tasks]
        with self.watched(tasks) as watch:
            watch.start(attempts)
            return attempts, watch.finish(attempts)


class Watch:
    """An executor with its attempts and their events."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.events: list[Event] = []
        self.ends: dict[str, Finished] = {}
        self._taken: list[Attempt] = []

    def start(self, attempts: Sequence[Attempt]) -> None:
        """Start attempts as soon as the executor has capacity for them."""
        left, deadline = [*attempts], time.monotonic() + PATIENCE_S
        while left:
            answers = self.executor.start(left)
            assert len(answers) == len(left), f"{len(answers)} answers to {len(left)} attempts"
            for attempt, answer in zip([*left], answers, strict=True):
                if not isinstance(answer, Busy):
                    assert answer.attempt is attempt, "an answer belongs to another attempt"
                    self.events.append(answer)
                    self._taken.append(attempt)
                    left.remove(attempt)
            if left:
                assert time.monotonic() < deadline, f"no capacity for {left[0].task.name}"
                self.hear()

    def attach(self, attempts: Sequence[Attempt]) -> Sequence[Queued | Began]:
        """Attach to attempts that an earlier executor has left."""
        known = {(attempt.task.index, attempt.number): attempt for attempt in attempts}
        answers = self.executor.attach(lambda *key: known.get(key))
        self._taken += [answer.attempt for answer in answers]
        return answers

    def hear(self, patience_s: float = 1.0) -> None:
        """Collect the executor's events for up to ``patience_s`` seconds."""
        for event in self.executor.wait(patience_s):
            self.events.append(event)
            if isinstance(event, Finished):
                name = event.attempt.task.name
                assert name not in self.ends, f"{name} ended twice"
                self.ends[name] = event

    def finish(self, attempts: Sequence[Attempt]) -> dict[str, Finished]:
        """Wait until the attempts have ended; return all ends by the name of the task."""
        deadline = time.monotonic() + PATIENCE_S
        while left := [a.task.name for a in attempts if a.task.name not in self.ends]:
            assert time.monotonic() < deadline, f"{left} did not end"
            self.hear()
        return self.ends

    def until_printed(self, attempt: Attempt) -> str:
        """Wait until an attempt has printed a whole line; return its output."""
        deadline = time.monotonic() + PATIENCE_S
        path = attempt.directory / "stdout"
        while not (path.exists() and path.read_text(encoding="utf-8").endswith("\n")):
            assert attempt.task.name not in self.ends, f"ended: {self.ends[attempt.task.name]}"
            assert time.monotonic() < deadline, f"{attempt.task.name} did not start"
            self.hear(0.02)
        return path.read_text(encoding="utf-8")

    def stop(self) -> None:
        """Stop all attempts that are left, and wait for their ends."""
        if left := [a for a in self._taken if a.task.name not in self.ends]:
            self.executor.stop()
            self.finish(left)


def printed(attempt: Attempt, stream: str = "stdout") -> str:
    """Return the output of an attempt so far."""
    return (attempt.directory / stream).read_text(encoding="utf-8")


@contextlib.contextmanager
def variable(name: str, value: str) -> Iterator[Mapping[str, str]]:
    """Set an environment variable of this process for a block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield os.environ
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before

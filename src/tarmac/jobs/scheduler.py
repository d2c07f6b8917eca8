"""Takes a job's tasks through an executor: in order, again where they failed, and on record."""

from __future__ import annotations

import dataclasses
import heapq
import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from tarmac.jobs.executors import Attempt, Busy, is_retried
from tarmac.jobs.journal import Journal, read_journal
from tarmac.jobs.order import Order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tarmac.jobs.executors import Executor, Finished, Outcome
    from tarmac.jobs.machine import Grant
    from tarmac.jobs.plan import Task

__all__ = ["Ended", "Reporter", "Silent", "directory_name", "run_tasks", "task_directory"]

# Longer pauses help nobody who waits; a pause that was asked for is kept all the same.
_LONGEST_PAUSE_S = 3600.0

# How often `stop` is asked, and an executor without room is asked again.
_PATIENCE_S = 0.5


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a task ended.

    Attributes:
        task: The task that has ended.
        outcome: How.
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


class Reporter(Protocol):
    """Receives a run's progress."""

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """An attempt of a task begins."""

    def waited(self) -> None:
        """Time has passed, half a second at most."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """An attempt failed, and another one follows."""

    def ended(self, ended: Ended) -> None:
        """A task is at its end."""


class Silent:
    """Passes no progress on."""

    def started(self, task: Task, attempt: int, grant: Grant) -> None:
        """Say nothing."""

    def waited(self) -> None:
        """Say nothing."""

    def retrying(self, task: Task, reason: str, delay_s: float) -> None:
        """Say nothing."""

    def ended(self, ended: Ended) -> None:
        """Say nothing."""


def task_directory(run: Path, task: Task) -> Path:
    """Return where a task's logs and its working directory are."""
    return run / "tasks" / directory_name(task.index, task.name)


def directory_name(index: int, name: str) -> str:
    """Return what the directory of a task is called."""
    plain = re.sub(r"[^A-Za-z0-9._=,-]+", "_", name)[:80]
    return f"{index:06d}-{plain}"


def pause_s(backoff_s: float, number: int) -> float:
    """Return how long to wait after an attempt has failed, in seconds.

    Args:
        backoff_s: After the first one; doubled after each, up to an hour.
        number: Of the attempt, from 1.
    """
    # The largest power needed: beyond it, a pause of a microsecond has grown to an hour.
    doubled = backoff_s * 2.0 ** min(number - 1, 32)
    return min(doubled, max(backoff_s, _LONGEST_PAUSE_S))


def run_tasks(
    tasks: Sequence[Task],
    run: Path,
    executor: Executor,
    reporter: Reporter,
    *,
    concurrency: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Counter[Outcome]:
    """Run all tasks that have not succeeded yet.

    Args:
        tasks: In the order of the file.
        run: The run's directory, with its journal.
        executor: What starts them.
        reporter: Receives progress.
        concurrency: At most so many at once; by default as many as fit.
        stop: Whether to end all that runs and stop; asked a few times a second.

    Returns:
        How many tasks ended how.
    """
    done = _succeeded_before(run / "journal.jsonl")
    with Journal(run / "journal.jsonl") as journal:
        session = _Session(
            run,
            executor,
            reporter,
            journal=journal,
            concurrency=concurrency or len(tasks) or 1,
            stop=stop,
        )
        normal = [task for task in tasks if not task.is_last]
        session.work(normal, done)
        # What follows all others follows them again where some were done again.
        has_worked = any(task.index not in done for task in normal)
        last = [task for task in tasks if task.is_last]
        session.work(last, set() if has_worked else done)
        return session.counts


def _succeeded_before(journal: Path) -> set[int]:
    """Return the numbers of the tasks that have succeeded in earlier sessions of a run."""
    if not journal.exists():
        return set()
    ended = (event for event in read_journal(journal) if event["event"] == "ended")
    return {event["task"] for event in ended if event["outcome"] == "succeeded"}


class _Session:
    def __init__(
        self,
        run: Path,
        executor: Executor,
        reporter: Reporter,
        *,
        journal: Journal,
        concurrency: int,
        stop: Callable[[], bool],
    ) -> None:
        self._run = run
        self._executor = executor
        self._reporter = reporter
        self._journal = journal
        self._concurrency = concurrency
        self._stop = stop
        self._num_active = 0
        self._stopping = False
        self._later: list[tuple[float, int, Task, int]] = []
        self._order = Order((), set())
        self.counts: Counter[Outcome] = Counter()

    def work(self, tasks: Sequence[Task], done: set[int]) -> None:
        """Take some tasks to their end."""
        if self._stopping:
            return
        self.counts.update("succeeded" for task in tasks if task.index in done)
        self._order = Order(tasks, done)
        while self._num_active or self._later or self._order:
            if not self._stopping and self._stop():
                self._stopping = True
                self._later.clear()
                self._order.clear()
                self._executor.stop()
            if not self._stopping:
                self._start_what_fits()
            for finished in self._executor.wait(self._patience()):
                self._num_active -= 1
                self._conclude(finished)
            self._reporter.waited()

    def _patience(self) -> float:
        if not self._later:
            return _PATIENCE_S
        return min(_PATIENCE_S, max(0.0, self._later[0][0] - time.monotonic()))

    def _start_what_fits(self) -> None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, task, number = heapq.heappop(self._later)
            self._order.push(task, number)
        without_gpus = False
        while self._num_active < self._concurrency:
            first = self._order.first(without_gpus=without_gpus)
            if first is None:
                return
            task, number = first
            attempt = Attempt(task, number, task_directory(self._run, task))
            grant = self._executor.start(attempt)
            if grant is Busy.FULL:
                return
            if grant is Busy.NO_GPU:
                without_gpus = True
                continue
            self._order.take(task)
            self._num_active += 1
            self._journal.write("started", task=task.index, name=task.name, attempt=number)
            self._reporter.started(task, number, grant)

    def _conclude(self, finished: Finished) -> None:
        """Try again, or end."""
        attempt, task = finished.attempt, finished.attempt.task
        is_again = is_retried(attempt, finished.outcome, finished.exit_code)
        if is_again and not self._stopping:
            delay_s = pause_s(task.retries.backoff, attempt.number)
            self._journal.write(
                "retried", task=task.index, attempt=attempt.number, reason=finished.reason
            )
            self._reporter.retrying(task, finished.reason, delay_s)
            when = time.monotonic() + delay_s
            heapq.heappush(self._later, (when, task.index, task, attempt.number + 1))
            return
        outcome, reason = finished.outcome, finished.reason
        if finished.problems and outcome == "succeeded":
            outcome, reason = "failed", f"its outputs were not kept: {finished.problems[0]}"
        self._record(
            Ended(
                task,
                outcome,
                reason,
                finished.exit_code,
                finished.seconds,
                attempt.number,
                finished.problems,
            )
        )
        if outcome == "succeeded" or (outcome == "failed" and task.continues):
            self._order.succeeded(task)
        elif outcome == "failed":
            for other, broken in self._order.failed(task):
                self._record(Ended(other, "skipped", f"{broken} has failed"))

    def _record(self, ended: Ended) -> None:
        self.counts[ended.outcome] += 1
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
        self._reporter.ended(ended)

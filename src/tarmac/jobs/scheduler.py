"""The scheduler: runs a job's tasks on an executor, in order, with retries and a journal."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tarmac.executors import (
    Attempt,
    Began,
    Busy,
    Executor,
    Finished,
    Outcome,
    Queued,
    Requeued,
    Waiting,
    is_retried,
)
from tarmac.jobs.history import History, read_history
from tarmac.jobs.journal import Journal
from tarmac.jobs.order import Order
from tarmac.jobs.progress import Ended, Reporter
from tarmac.jobs.retries import follow_up
from tarmac.masking import without_known_in
from tarmac.tasks.plan import Task
from tarmac.tasks.run_files import directory_name

# Interval between calls of `stop`, and between offers to an executor without room.
_PATIENCE_S = 0.5

# Maximum number of attempts in one offer to a queueing executor; refused attempts are put back.
_MAX_AT_ONCE = 1000

# Time until the next offer to a queueing executor without room, unless this part of its attempts
# ends. Offering the same thousand attempts after each end would cost more than all else.
_FULL_FOR_S = 5.0
_FREED_PART = 0.1


def task_directory(run: Path, task: Task) -> Path:
    """Return the directory of a task, with its logs and its working directory."""
    return run / "tasks" / directory_name(task.index, task.name)


def run_tasks(
    tasks: Sequence[Task],
    run: Path,
    executor: Executor,
    reporter: Reporter,
    *,
    concurrency: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    detach: Callable[[], bool] = lambda: False,
) -> Counter[Outcome]:
    """Run all tasks that have not succeeded yet.

    Args:
        tasks: Tasks in the order of the file.
        run: Directory of the run, with its journal.
        executor: Executor that starts attempts, on this machine or through an engine.
        reporter: Reporter that is called as attempts begin, are retried, and end.
        concurrency: Maximum number of attempts at once; by default as many as fit. An executor that
            queues attempts applies the limit itself.
        stop: Returns whether to end all running attempts and stop; called a few times a second.
        detach: Returns whether to leave queued and running attempts to the engine and return;
            called as often, and only where the executor queues.

    Returns:
        Number of ended tasks by outcome, without tasks that were left to the engine.
    """
    history = read_history(run / "journal.jsonl")
    with Journal(run / "journal.jsonl") as journal:
        session = _Session(
            run,
            executor,
            reporter,
            journal=journal,
            history=history,
            concurrency=concurrency or len(tasks) or 1,
            stop=stop,
            detach=detach,
        )
        session.attach(tasks)
        done = history.done
        normal = [task for task in tasks if not task.is_last]
        session.work(normal, done)
        # The last task runs again if any other task ran again.
        has_worked = any(task.index not in done for task in normal)
        last = [task for task in tasks if task.is_last]
        session.work(last, set() if has_worked else done)
        return session.counts


class _Session:
    def __init__(
        self,
        run: Path,
        executor: Executor,
        reporter: Reporter,
        *,
        journal: Journal,
        history: History,
        concurrency: int,
        stop: Callable[[], bool],
        detach: Callable[[], bool],
    ) -> None:
        self._run = run
        self._executor = executor
        self._reporter = reporter
        self._journal = journal
        self._history = history
        self._concurrency = concurrency
        self._stop = stop
        self._detach = detach
        self._active: set[int] = set()
        self._without_room: set[int] = set()
        self._stopping = False
        self._full_until, self._full_above = 0.0, 0.0
        self._later: list[tuple[float, int, Task]] = []
        self._order = Order((), set())
        # Events are in the journal before they are reported.
        self._lines: list[dict[str, Any]] = []
        self._reports: list[Callable[[], None]] = []
        self.counts: Counter[Outcome] = Counter()

    def attach(self, tasks: Sequence[Task]) -> None:
        """Take over the attempts that an earlier runner left with the engine."""
        by_index = {task.index: task for task in tasks}

        def make(index: int, number: int) -> Attempt | None:
            past = self._history.of(index)
            if index not in by_index or past.has_succeeded or number <= past.settled:
                return None
            return self._attempt(by_index[index], number)

        for answer in self._executor.attach(make):
            index, number = answer.attempt.task.index, answer.attempt.number
            self._active.add(index)
            if isinstance(answer, Began) or number > self._history.of(index).last:
                self._note(answer)
        if self._executor.queues:
            self._note_lost(tasks)
        self._flush()
        for task in tasks:
            if task.index not in self._active:
                # Agents claim attempts by number, so a run of an engine never reuses a number.
                self._history.of(task.index).renew(keeps_numbers=self._executor.queues)

    def _note_lost(self, tasks: Sequence[Task]) -> None:
        """Record the attempts whose end cannot arrive, because the engine does not have them."""
        for task in tasks:
            past = self._history.of(task.index)
            if past.last > past.settled and task.index not in self._active:
                attempt = self._attempt(task, past.last)
                words = "left by an earlier session, and unknown to the engine"
                self._write("retried", attempt, reason=words, cause="lost")

    def work(self, tasks: Sequence[Task], done: set[int]) -> None:
        """Run tasks until all have ended."""
        if self._stopping:
            return
        self.counts.update("succeeded" for task in tasks if task.index in done)
        self._order = Order(tasks, done, self._active)
        own = {task.index for task in tasks}
        while self._later or self._order or self._has_active(own):
            if not self._stopping and self._stop():
                self._stopping = True
                self._later.clear()
                self._order.clear()
                self._executor.stop()
            if not self._stopping:
                if self._executor.queues and self._detach():
                    self._stopping = True
                    self._executor.detach()
                    return
                self._start_what_fits()
            for happened in self._executor.wait(self._patience()):
                event = without_known_in(happened, "reason", "problems", "notes")
                if isinstance(event, Finished):
                    self._conclude(event)
                else:
                    self._note(event)
            self._flush()
            self._reporter.waited()

    def _has_active(self, own: set[int]) -> bool:
        """Whether any of these tasks is active; while stopping, whether any task is."""
        return bool(self._active) if self._stopping else not own.isdisjoint(self._active)

    def _patience(self) -> float:
        if not self._later:
            return _PATIENCE_S
        return min(_PATIENCE_S, max(0.0, self._later[0][0] - time.monotonic()))

    def _start_what_fits(self) -> None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            self._order.push(heapq.heappop(self._later)[2])
        if self._executor.queues:
            self._queue(now)
        else:
            self._begin()
        self._flush()

    def _begin(self) -> None:
        """Start attempts one by one, as long as there is room."""
        without_gpus = False
        while len(self._active) < self._concurrency:
            task = self._order.first(without_gpus=without_gpus)
            if task is None:
                return
            (answer,) = self._executor.start([self._next_attempt(task)])
            if isinstance(answer, Busy):
                self._report_no_room(task, answer)
                if answer is Busy.FULL:
                    return
                without_gpus = True
                continue
            self._order.take(task)
            self._active.add(task.index)
            self._note(answer)
            self._flush()

    def _report_no_room(self, task: Task, answer: Busy) -> None:
        """Report once that a task waits although this run holds nothing."""
        if not self._active and task.index not in self._without_room:
            self._without_room.add(task.index)
            reason = "other runs hold the GPUs" if answer is Busy.NO_GPU else "there is no room now"
            self._reporter.told(Waiting(self._next_attempt(task), reason))

    def _queue(self, now: float) -> None:
        """Submit all runnable tasks, as long as the engine accepts them."""
        while now >= self._full_until and (tasks := self._order.take_first(_MAX_AT_ONCE)):
            attempts = [self._next_attempt(task) for task in tasks]
            for task, answer in zip(tasks, self._executor.start(attempts), strict=True):
                if isinstance(answer, Busy):
                    self._order.push(task)
                    self._full_until = now + _FULL_FOR_S
                    self._full_above = len(self._active) * (1 - _FREED_PART)
                else:
                    self._active.add(task.index)
                    self._note(answer)
            self._flush()

    def _next_attempt(self, task: Task) -> Attempt:
        return self._attempt(task, self._history.of(task.index).last + 1)

    def _attempt(self, task: Task, number: int) -> Attempt:
        free = number - 1 - self._history.of(task.index).spent
        return Attempt(task, number, task_directory(self._run, task), free)

    def _note(self, event: Queued | Waiting | Began | Requeued) -> None:
        """Record and report an event of an attempt."""
        attempt = event.attempt
        match event:
            case Queued(place=""):
                # Not submitted yet: if this process ends now, no engine has the attempt.
                return
            case Queued(place=place):
                self._write("queued", attempt, place=place)
            case Waiting(reason=reason, is_at_work=is_at_work):
                self._write("noted" if is_at_work else "waiting", attempt, reason=reason)
            case Requeued(cause=cause, reason=reason):
                self._write("requeued", attempt, cause=cause, reason=reason)
            case Began(grant=grant, host=host):
                known = {"host": host, "cpus": grant.cpus, "gpus": [*grant.gpus]}
                self._write(
                    "started", attempt, **{key: value for key, value in known.items() if value}
                )
        if self._executor.queues:
            self._reports.append(lambda: self._reporter.told(event))
        if isinstance(event, Began):
            grant = event.grant
            self._reports.append(
                lambda: self._reporter.started(attempt.task, attempt.number, grant)
            )

    def _conclude(self, finished: Finished) -> None:
        """Retry a task after an attempt, or record its end."""
        attempt, task = finished.attempt, finished.attempt.task
        self._active.discard(task.index)
        if len(self._active) <= self._full_above:
            self._full_until = 0.0
        outcome, reason, cause = finished.outcome, finished.reason, finished.cause
        if not self._stopping:
            following = follow_up(
                self._history.of(task.index),
                cause,
                reason,
                goes_on=finished.goes_on,
                is_retried=is_retried(attempt, outcome, finished.exit_code, cause),
                backoff_s=task.retries.backoff,
            )
            if following.pause_s is not None:
                self._schedule_retry(finished, following.pause_s)
                return
            reason = following.reason
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
                cause,
                finished.host,
                finished.notes,
            )
        )
        if outcome == "succeeded" or (outcome == "failed" and task.continues):
            self._order.succeeded(task)
        elif outcome == "failed":
            for other, broken in self._order.failed(task):
                self._record(Ended(other, "skipped", f"{broken} has failed"))

    def _schedule_retry(self, finished: Finished, delay_s: float) -> None:
        """Record an attempt that another attempt follows, and start that one after a delay."""
        attempt, task, cause = finished.attempt, finished.attempt.task, finished.cause
        self._write(
            "retried",
            attempt,
            reason=finished.reason,
            **({} if cause is None else {"cause": cause}),
            **({"host": finished.host} if finished.host else {}),
            **({"goes_on": True} if finished.goes_on else {}),
        )
        self._reports.append(lambda: self._reporter.retrying(task, finished.reason, delay_s))
        self._history.of(task.index).count(attempt.number, cause, goes_on=finished.goes_on)
        heapq.heappush(self._later, (time.monotonic() + delay_s, task.index, task))

    def _record(self, ended: Ended) -> None:
        self.counts[ended.outcome] += 1
        self._lines.append(
            {
                "event": "ended",
                "task": ended.task.index,
                "name": ended.task.name,
                "outcome": ended.outcome,
                "reason": ended.reason,
                "exit_code": ended.exit_code,
                "seconds": round(ended.seconds, 3),
                "attempts": ended.attempts,
                "problems": [*ended.problems],
                "cause": ended.cause,
                "host": ended.host,
            }
        )
        self._reports.append(lambda: self._reporter.ended(ended))

    def _write(self, event: str, attempt: Attempt, **values: Any) -> None:
        task = attempt.task
        self._lines.append(
            {
                "event": event,
                "task": task.index,
                "name": task.name,
                "attempt": attempt.number,
                **values,
            }
        )

    def _flush(self) -> None:
        """Write events to the journal, then report them."""
        lines, self._lines = self._lines, []
        self._journal.write_all(lines)
        reports, self._reports = self._reports, []
        for report in reports:
            report()

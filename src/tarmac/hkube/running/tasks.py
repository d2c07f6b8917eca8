"""The tasks of a run: their names, their submission to the host, and their journal."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tarmac.hkube.hosting import Ending, Host, Work
from tarmac.hkube.running.history import History
from tarmac.hkube.running.observer import Observer
from tarmac.jobs import Cause
from tarmac.masking import without_known, without_known_in

# Waiting for the disk takes a fifth of the time at most: what ends meanwhile is written at once.
_PAUSE_PER_WAIT = 4.0


@dataclasses.dataclass(frozen=True)
class _Settled:
    """A task that the host has ended, not yet recorded; ``future`` is what `submit` returned."""

    work: Work
    digest: str
    future: asyncio.Future[Ending]
    hosted: asyncio.Future[Ending]

    def error(self) -> BaseException | None:
        """Return why the host could not run the task, or None."""
        return None if self.hosted.cancelled() else self.hosted.exception()

    def ending(self) -> Ending:
        """Return the host's ending, if there is no error."""
        if self.hosted.cancelled():
            return Ending(work=self.work, why="stopped", message="the run was stopped")
        return self.hosted.result()


class Tasks:
    """The tasks that all pipelines of a run share; the host's `EngineWatcher`.

    Args:
        run: Directory of the run, whose name starts each task ID.
        history: History of the run, with the endings of earlier sessions.
        observer: Receives each event of a task.

    Attributes:
        host: Host of the tasks, set before the first task is submitted.
        counts: Number of ended tasks by outcome, including those of earlier sessions.
        broken: Future that fails with an error that breaks the run, such as a full disk or an
            observer's error.
        is_leaving: Whether running tasks are left to an engine, so they must not be ended.
    """

    host: Host
    is_leaving = False

    def __init__(self, run: Path, history: History, observer: Observer) -> None:
        self.run = run
        self.history = history
        self.counts: Counter[str] = Counter()
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._observer = observer
        self._seen = set[tuple[str, str]]()
        self._num_called: dict[str, Counter[str]] = {}
        self._settled: list[_Settled] = []
        self._recording: asyncio.TimerHandle | None = None
        self._next_record = 0.0
        self._pause = _PAUSE_PER_WAIT

    def index_and_id(self, name: str) -> tuple[int, str]:
        """Return a task's number in the run and its ID, the same in each session."""
        index = self.history.index_of(name)
        return index, f"{re.sub('[^A-Za-z0-9_-]', '-', self.run.name)}-{index:06d}"

    def name_of_call(self, caller: Work, called: str) -> str:
        """Return the name of a call by a task's algorithm, such as ``train/evaluate#1``."""
        numbers = self._num_called.setdefault(caller.name, Counter())
        numbers[called] += 1
        return f"{caller.name}/{called}#{numbers[called]}"

    def submit(self, work: Work, digest: str) -> asyncio.Future[Ending]:
        """Submit a task to the host.

        Args:
            work: Task for the host to run.
            digest: Digest of the task's input, from `digest_of`.

        Returns:
            Future of the ending, resolved after the journal has it. Cancelling it stops the task.
        """
        future: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        hosted = self.host.submit(work)
        hosted.add_done_callback(functools.partial(self._settle, work, digest, future))
        future.add_done_callback(lambda done: hosted.cancel() if done.cancelled() else None)
        return future

    def end(self, ending: Ending, digest: str) -> Ending:
        """Record the ending of a task, and report it to the observer.

        Returns:
            The same ending, or a failure if the result is of a kind that cannot be stored.

        Raises:
            StorageError: The files cannot be written, for example because of a full disk.
        """
        (recorded,) = self._end([(ending, digest)])
        return recorded

    def record_at_once(self) -> None:
        """Record all tasks that have ended, and from now on each as it ends: the run is over."""
        self._pause = 0.0
        if self._recording is not None:
            self._recording.cancel()
            self._record()

    def _end(self, endings: Sequence[tuple[Ending, str]]) -> list[Ending]:
        # An algorithm's error message may contain its secrets.
        recorded = self.history.ended(
            [(without_known_in(ending, "message", "details"), digest) for ending, digest in endings]
        )
        for ending in recorded:
            self._num_called.pop(ending.work.name, None)
            stopped = ending.why == "stopped"
            self.counts[
                "succeeded" if ending.succeeded else "interrupted" if stopped else "failed"
            ] += 1
            self._observer.ended(ending)
        return recorded

    def repeated(self, name: str, *, succeeded: bool) -> None:
        """Count and report a task that ended in an earlier session."""
        self.history.forget(name)
        self.counts["succeeded" if succeeded else "failed"] += 1
        self._observer.repeated(name)

    def tried(self, name: str, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Report the end of a trial."""
        self._observer.tried(name, number, params, value)

    def started(self, work: Work, attempt: int, directory: Path, gpus: Sequence[str]) -> None:
        """Record and report the start of an attempt; see `Watcher`."""

        def note() -> None:
            self.history.started(work, attempt, directory, gpus)
            self._observer.started(work, attempt, directory, gpus)

        self._guard(note)

    def queued(self, work: Work, attempt: int, directory: Path, place: str) -> None:
        """Record that an engine has queued an attempt; see `EngineWatcher`."""
        self._guard(lambda: self.history.queued(work, attempt, directory, place))

    def began(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str
    ) -> None:
        """Record and report the start of an attempt on a host; see `EngineWatcher`."""

        def note() -> None:
            self.history.started(work, attempt, directory, gpus, host)
            self._observer.started(work, attempt, directory, gpus, host)

        self._guard(note)

    def kept(self, work: Work, attempt: int, reason: str, *, is_at_work: bool) -> None:
        """Record and report why an attempt waits; see `EngineWatcher`."""
        self._guard(lambda: self.history.kept(work, attempt, reason, is_at_work=is_at_work))
        if reason:
            self.waiting(work, reason)

    def requeued(self, work: Work, attempt: int, cause: Cause, reason: str) -> None:
        """Record and report that an attempt is queued again; see `EngineWatcher`."""

        def note() -> None:
            self.history.requeued(work, attempt, cause, reason)
            self._observer.waiting(work, reason)

        self._guard(note)

    def restarting(
        self,
        work: Work,
        attempt: int,
        cause: Cause | None,
        reason: str,
        delay_s: float,
        *,
        goes_on: bool,
    ) -> None:
        """Record and report that another attempt follows one on a host; see `EngineWatcher`."""
        reason = without_known(reason)

        def note() -> None:
            self.history.restarting(work, attempt, cause, reason, goes_on=goes_on)
            self._observer.retrying(work, reason, delay_s)

        self._guard(note)

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Report the progress of a task; see `Watcher`."""
        self._guard(lambda: self._observer.progress(work, value, without_known(details)))

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Record and report that a failed attempt is retried; see `Watcher`."""
        reason = without_known(reason)

        def note() -> None:
            self.history.retrying(work, reason)
            self._observer.retrying(work, reason, delay_s)

        self._guard(note)

    def waiting(self, work: Work, reason: str) -> None:
        """Report why a task waits, once for each algorithm and reason; see `Watcher`."""
        reason = without_known(reason)
        if (work.algorithm, reason) not in self._seen:
            self._seen.add((work.algorithm, reason))
            self._guard(lambda: self._observer.waiting(work, reason))

    def _settle(
        self,
        work: Work,
        digest: str,
        future: asyncio.Future[Ending],
        hosted: asyncio.Future[Ending],
    ) -> None:
        if self.is_leaving:
            future.cancel()
            return
        self._settled.append(_Settled(work, digest, future, hosted))
        delay = self._next_record - asyncio.get_running_loop().time()
        if self._pause == 0.0 or delay <= 0.0:
            self._record()
        elif self._recording is None:
            self._recording = asyncio.get_running_loop().call_later(delay, self._record)

    def _record(self) -> None:
        """Record all tasks that have ended; once that is on the disk, resolve their futures."""
        self._recording = None
        settled = [task for task in self._settled if not task.error()]
        failed = [task for task in self._settled if task.error()]
        self._settled = []
        started = asyncio.get_running_loop().time()
        try:
            endings = self._end([(task.ending(), task.digest) for task in settled])
            for task in failed:
                task.hosted.result()
        except Exception as error:
            # The error ends the whole run through `broken`, so these futures only need to end.
            self._break(error)
            for task in (*settled, *failed):
                task.future.cancel()
            return
        now = asyncio.get_running_loop().time()
        self._next_record = now + self._pause * (now - started)
        for task, ending in zip(settled, endings, strict=True):
            if task.future.done():
                continue
            if task.hosted.cancelled():
                task.future.cancel()
            else:
                task.future.set_result(ending)

    def _guard(self, note: Callable[[], None]) -> None:
        # An error in a watcher must end the run, but not break the host.
        try:
            note()
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)

"""Tasks of a run as its pipelines ask for them: named, given to the host, and written down."""

from __future__ import annotations

import asyncio
import functools
import re
from collections import Counter
from typing import TYPE_CHECKING

from tarmac.hkube.hosting import Ending
from tarmac.masking import without_known, without_known_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tarmac.hkube.hosting import Host, Work
    from tarmac.hkube.running.history import History
    from tarmac.hkube.running.observer import Observer
    from tarmac.jobs import Cause


class Tasks:
    """What all pipelines of a run share; the host's `EngineWatcher`.

    Args:
        run: Directory of the run, whose name starts each task ID.
        history: What has happened in it.
        observer: Is told what happens.

    Attributes:
        host: Set before the first task is submitted.
        counts: How many tasks have ended how, those of earlier sessions among them.
        broken: Fails with what keeps the run from going on: a full disk, an observer's error.
        is_leaving: Whether what is at work is left to an engine, so that it has not ended.
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

    def index_and_id(self, name: str) -> tuple[int, str]:
        """Return a task's number in the run and its id, the same in each session."""
        index = self.history.index_of(name)
        return index, f"{re.sub('[^A-Za-z0-9_-]', '-', self.run.name)}-{index:06d}"

    def name_of_call(self, caller: Work, called: str) -> str:
        """Return the name of what a task's algorithm has asked for: ``train/evaluate#1``."""
        numbers = self._num_called.setdefault(caller.name, Counter())
        numbers[called] += 1
        return f"{caller.name}/{called}#{numbers[called]}"

    def submit(self, work: Work, digest: str) -> asyncio.Future[Ending]:
        """Give a task to the host.

        Args:
            work: Task for the host to run.
            digest: Digest of the task's input, from `digest_of`.

        Returns:
            How it ended, once that is written down. Cancelling it stops the task.
        """
        future: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        hosted = self.host.submit(work)
        hosted.add_done_callback(functools.partial(self._settle, work, digest, future))
        future.add_done_callback(lambda done: hosted.cancel() if done.cancelled() else None)
        return future

    def end(self, ending: Ending, digest: str) -> Ending:
        """Write down how a task ended, and tell it.

        Returns:
            The same, or that it has failed, where its result cannot be stored.

        Raises:
            StorageError: There is no room for it, or the like.
        """
        # What an algorithm says of its end may have its secrets.
        ending = self.history.ended(without_known_in(ending, "message", "details"), digest)
        self._num_called.pop(ending.work.name, None)
        stopped = ending.why == "stopped"
        self.counts[
            "succeeded" if ending.succeeded else "interrupted" if stopped else "failed"
        ] += 1
        self._observer.ended(ending)
        return ending

    def repeated(self, name: str, *, succeeded: bool) -> None:
        """Note that a task had its end in an earlier session."""
        self.history.forget(name)
        self.counts["succeeded" if succeeded else "failed"] += 1
        self._observer.repeated(name)

    def tried(self, name: str, number: int, params: Mapping[str, Any], value: float | None) -> None:
        """Tell how a trial has ended."""
        self._observer.tried(name, number, params, value)

    def started(self, work: Work, attempt: int, directory: Path, gpus: Sequence[str]) -> None:
        """Write down that an attempt begins; see `Watcher`."""

        def note() -> None:
            self.history.started(work, attempt, directory, gpus)
            self._observer.started(work, attempt, directory, gpus)

        self._guard(note)

    def queued(self, work: Work, attempt: int, directory: Path, place: str) -> None:
        """Write down that an engine has an attempt; see `EngineWatcher`."""
        self._guard(lambda: self.history.queued(work, attempt, directory, place))

    def began(
        self, work: Work, attempt: int, directory: Path, gpus: Sequence[str], host: str
    ) -> None:
        """Write down that an attempt begins on a host; see `EngineWatcher`."""

        def note() -> None:
            self.history.started(work, attempt, directory, gpus, host)
            self._observer.started(work, attempt, directory, gpus, host)

        self._guard(note)

    def kept(self, work: Work, attempt: int, reason: str, *, is_at_work: bool) -> None:
        """Write down what keeps an attempt waiting, and tell it; see `EngineWatcher`."""
        self._guard(lambda: self.history.kept(work, attempt, reason, is_at_work=is_at_work))
        if reason:
            self.waiting(work, reason)

    def requeued(self, work: Work, attempt: int, cause: Cause, reason: str) -> None:
        """Write down that an attempt waits again, and tell it; see `EngineWatcher`."""

        def note() -> None:
            self.history.requeued(work, attempt, cause, reason)
            self._observer.waiting(work, reason)

        self._guard(note)

    def disturbed(
        self, work: Work, attempt: int, cause: Cause | None, reason: str, delay_s: float
    ) -> None:
        """Write down that another attempt follows, and tell it; see `EngineWatcher`."""

        def note() -> None:
            self.history.disturbed(work, attempt, cause, reason)
            self._observer.retrying(work, reason, delay_s)

        self._guard(note)

    def progress(self, work: Work, value: float | None, details: str) -> None:
        """Tell how far a task is; see `Watcher`."""
        self._guard(lambda: self._observer.progress(work, value, without_known(details)))

    def retrying(self, work: Work, reason: str, delay_s: float) -> None:
        """Write down that another attempt follows; see `Watcher`."""
        reason = without_known(reason)

        def note() -> None:
            self.history.retrying(work, reason)
            self._observer.retrying(work, reason, delay_s)

        self._guard(note)

    def waiting(self, work: Work, reason: str) -> None:
        """Tell why a task cannot begin, once for each algorithm and reason; see `Watcher`."""
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
        try:
            if hosted.cancelled():
                self.end(Ending(work=work, why="stopped", message="the run was stopped"), digest)
                if not future.done():
                    future.cancel()
                return
            ending = self.end(hosted.result(), digest)
        except Exception as error:
            # The run ends with it, and nobody asks this one task for it any more.
            self._break(error)
            future.cancel()
            return
        if not future.done():
            future.set_result(ending)

    def _guard(self, note: Callable[[], None]) -> None:
        # The host goes on whatever its watcher does; the run does not.
        try:
            note()
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)

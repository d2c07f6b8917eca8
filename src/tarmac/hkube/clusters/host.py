"""A host that runs a pipeline's tasks with an engine, each on a node that hosts its algorithm."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tarmac.files import storage_errors
from tarmac.formats import Algorithm
from tarmac.hkube.clusters.driver import Driver
from tarmac.hkube.clusters.interface import EngineWatcher
from tarmac.hkube.clusters.judging import ending_without_word
from tarmac.hkube.clusters.node_tasks import NodeTaskSpec, ending_file, errand_file, read_ending
from tarmac.hkube.clusters.wrapping import Wrapped, wrap
from tarmac.hkube.hosting import Calls, Ending, Work, first_of, is_tried_again
from tarmac.hkube.values import digest_of
from tarmac.jobs import (
    SHARED,
    Attempt,
    Began,
    Cause,
    Event,
    Executor,
    Finished,
    Queued,
    Requeued,
    Secret,
    Site,
    Task,
    Waiting,
    directory_name,
    find_executor,
    follow_up,
    read_history,
)

# On a network file system, the ending file may appear after the attempt's success.
_LOOK_AGAIN_S = 0.5
_MAX_LOOKS = 40


@dataclasses.dataclass(eq=False)
class _Flight:
    """An attempt that the executor has.

    Attributes:
        work: Task that the attempt runs.
        attempt: Attempt as the executor identifies it.
        finished: Resolves with the executor's report when the attempt has ended.
    """

    work: Work
    attempt: Attempt
    finished: asyncio.Future[Finished]

    @property
    def errand(self) -> Path:
        """The path of the task file that the node reads."""
        return errand_file(self.attempt.directory, self.attempt.number)


class ClusterHost:
    """A `Host` that runs tasks on a cluster.

    Leaving the block ends running tasks, or leaves them to the engine.

    Args:
        algorithms: Algorithms, by the name that tasks use.
        run: Directory of the run, which the nodes see. Its journal has the earlier attempts.
        base: Directory that relative paths in the jobs start from.
        watcher: Receives each event of a task.
        calls: Not used: the node refuses algorithms and pipelines that an algorithm starts.
        concurrency: Most tasks at once. Default: as many as the engine takes.
        fake_gpus: Number of GPUs to pretend on each node. Default 0: use the real ones.
        secrets: Sources of the secrets on this machine, by secret name.
        on: Name of the executor, one of `tarmac.jobs.executor_names`.
        options: Executor-specific options, by executor name.
        leaves: Function that returns whether to leave running tasks to the engine. Called when the
            block is left. Default: end them.

    Raises:
        RequestError: An algorithm's job cannot be planned.
    """

    def __init__(
        self,
        algorithms: Mapping[str, Algorithm],
        run: Path,
        *,
        base: Path,
        watcher: EngineWatcher,
        calls: Calls,  # noqa: ARG002 - part of the interface
        concurrency: int | None = None,
        fake_gpus: int = 0,
        secrets: Mapping[str, Secret] | None = None,
        on: str,
        options: Mapping[str, Mapping[str, Any]],
        leaves: Callable[[], bool] = lambda: False,
    ) -> None:
        self._run = run.resolve()
        self._watcher = watcher
        self._kind = find_executor(on)
        self._fake_gpus = fake_gpus
        self._base = base
        self._leaves = leaves
        self._algorithms = algorithms
        self._wrapped = {
            name: wrap(algorithm, base, on, options) for name, algorithm in algorithms.items()
        }
        # The executor gets the tasks later; these templates tell it what to expect.
        self._tasks: list[Task] = [
            dataclasses.replace(wrapped.template, index=-number)
            for number, wrapped in enumerate(self._wrapped.values(), start=1)
        ]
        self._site = Site(
            tasks=self._tasks,
            run=self._run,
            base=base,
            shared=self._run / SHARED,
            secrets=secrets or {},
            fake_gpus=fake_gpus,
            concurrency=concurrency,
            # The pipeline itself decides how many failures it tolerates.
            keep_going=True,
        )
        self._rooms = {
            name: asyncio.Semaphore(algorithm.max_workers)
            for name, algorithm in algorithms.items()
            if algorithm.max_workers
        }
        self._flights: dict[tuple[int, int], _Flight] = {}
        self._left: dict[str, _Flight] = {}
        self._doing: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None

    async def __aenter__(self) -> Self:
        """Attach to the attempts of an earlier session, and start to accept tasks."""
        self._loop = asyncio.get_running_loop()
        executor = await asyncio.to_thread(self._open)
        self._driver = Driver(
            executor,
            [flight.attempt for flight in self._flights.values()],
            heard=self._on_answer,
            failed=self._fail,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End running tasks and wait for their end, or leave them to the engine."""
        await self._driver.close("detach" if self._leaves() else "stop")
        for task in self._doing:
            task.cancel()
        while self._doing:
            await asyncio.wait(self._doing)

    def submit(self, work: Work) -> asyncio.Future[Ending]:
        """Run a task; see `Host`."""
        future: asyncio.Future[Ending] = self._loop.create_future()
        task = self._loop.create_task(self._settle(work, future))
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)
        return future

    def _open(self) -> Executor:
        """Open the executor and attach to the attempts of an earlier session."""
        self._history = read_history(self._run / "journal.jsonl", ignores=_is_unread_success)
        executor = self._kind.open(self._site)
        try:
            for answer in executor.attach(self._attached):
                self._take_over(answer.attempt)
        except BaseException:
            executor.close()
            raise
        return executor

    def _attached(self, index: int, number: int) -> Attempt | None:
        """Return an attempt of an earlier session; None if its result is no longer needed."""
        if number <= self._history.of(index).settled:
            return None
        for directory in sorted(self._run.glob(f"tasks/{index:06d}-*")):
            path = errand_file(directory, number)
            if not path.exists():
                continue
            work = NodeTaskSpec.read(path).work
            wrapped = self._wrapped.get(work.algorithm)
            if wrapped is None:
                return None
            task = dataclasses.replace(wrapped.task(work, directory, number), index=index)
            return Attempt(task, number, directory, number - 1)
        return None

    def _take_over(self, attempt: Attempt) -> None:
        work = NodeTaskSpec.read(errand_file(attempt.directory, attempt.number)).work
        past = self._history.of(attempt.task.index)
        past.last = max(past.last, attempt.number)
        flight = self._flight(work, attempt)
        self._left[work.name] = flight

    def _flight(self, work: Work, attempt: Attempt) -> _Flight:
        if attempt.task.secrets:
            self._tasks.append(attempt.task)
        flight = _Flight(work, attempt, self._loop.create_future())
        self._flights[attempt.task.index, attempt.number] = flight
        return flight

    async def _settle(self, work: Work, future: asyncio.Future[Ending]) -> None:
        """Run a task; resolve its future with the ending or with an error that breaks the run."""
        try:
            wrapped = self._wrapped.get(work.algorithm)
            if wrapped is None:
                message = f"Algorithm named '{work.algorithm}' does not exist; give its definition"
                ending = Ending(work=work, why="refused", message=message)
            else:
                async with self._rooms.get(work.algorithm) or contextlib.nullcontext():
                    ending = await self._do(work, wrapped, future)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
            return
        if not future.done():
            future.set_result(ending)

    async def _do(self, work: Work, wrapped: Wrapped, future: asyncio.Future[Ending]) -> Ending:
        """Run the attempts of a task until it ends."""
        past = self._history.of(work.index)
        flight = await self._left_behind(work)
        number, ending = self._found(work) if flight is None else (0, None)
        while not future.done():
            cause: Cause | None = None
            goes_on = False
            if ending is None:
                flight = flight or self._begin(work, wrapped)
                finished = await self._finished(flight, future)
                number, ending = flight.attempt.number, await self._word(flight, finished)
                if ending is None:
                    cause, goes_on = finished.cause, finished.goes_on
                    ending = ending_without_word(finished, work, flight.attempt.directory)
            following = follow_up(
                past,
                cause,
                ending.message,
                goes_on=goes_on,
                is_retried=is_tried_again(dataclasses.replace(ending, attempts=past.spent + 1)),
            )
            if following.pause_s is None:
                return dataclasses.replace(ending, message=following.reason, attempts=number)
            past.count(number, cause, goes_on=goes_on)
            self._watcher.restarting(
                work, number, cause, ending.message, following.pause_s, goes_on=goes_on
            )
            await first_of(future, timeout_s=following.pause_s)
            flight = ending = None
        return Ending(work=work, why="stopped", message="it was stopped")

    async def _left_behind(self, work: Work) -> _Flight | None:
        """Return the attempt of a task that an earlier session left to the engine, or None."""
        flight = self._left.pop(work.name, None)
        if flight is None:
            return None
        if _is_same(flight.work, work):
            flight.work = work
            return flight
        self._driver.end(flight.attempt, "its input has changed")
        await flight.finished
        return None

    def _found(self, work: Work) -> tuple[int, Ending | None]:
        """Return the number and ending of an attempt whose end is not in the journal."""
        past = self._history.of(work.index)
        if past.last > past.settled:
            errand = errand_file(self._directory(work), past.last)
            has_ended = errand.exists() and ending_file(errand).exists()
            if has_ended and _is_same(NodeTaskSpec.read(errand).work, work):
                return past.last, read_ending(ending_file(errand), work)
        return 0, None

    def _begin(self, work: Work, wrapped: Wrapped) -> _Flight:
        """Start another attempt of a task."""
        if self._failure is not None:
            raise self._failure
        past, directory = self._history.of(work.index), self._directory(work)
        number = past.last = past.last + 1
        with storage_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
        errand = NodeTaskSpec(
            # This host handles the retries, so the node makes one attempt.
            work=dataclasses.replace(work, retry="Never", limit=1, caller=None),
            algorithm=wrapped.algorithm,
            base=self._base,
            fake_gpus=self._fake_gpus,
        )
        errand.write(errand_file(directory, number))
        task = wrapped.task(work, directory, number)
        flight = self._flight(work, Attempt(task, number, directory, number - 1))
        self._driver.begin(flight.attempt)
        return flight

    def _directory(self, work: Work) -> Path:
        return self._run / "tasks" / directory_name(work.index, work.name)

    async def _finished(self, flight: _Flight, future: asyncio.Future[Ending]) -> Finished:
        """Wait for the end of an attempt; end it if its task was cancelled."""
        await first_of(flight.finished, future)
        if not flight.finished.done() and not self._leaves():
            self._driver.end(flight.attempt, "it was stopped")
        return await flight.finished

    async def _word(self, flight: _Flight, finished: Finished) -> Ending | None:
        """Return the ending that the node wrote for an attempt; None if there is none."""
        path = ending_file(flight.errand)
        ending = read_ending(path, flight.work)
        for _ in range(_MAX_LOOKS):
            if ending is not None or finished.outcome != "succeeded":
                break
            await asyncio.sleep(_LOOK_AGAIN_S)
            ending = read_ending(path, flight.work)
        return ending

    def _on_answer(self, event: Event) -> None:
        """Pass an executor event on to the watcher."""
        attempt = event.attempt
        flight = self._flights[attempt.task.index, attempt.number]
        work, number = flight.work, attempt.number
        match event:
            case Queued(place=place) if place:
                self._watcher.queued(work, number, attempt.directory, place)
            case Waiting(reason=reason, is_at_work=is_at_work):
                self._watcher.kept(work, number, reason, is_at_work=is_at_work)
            case Requeued(cause=cause, reason=reason):
                self._watcher.requeued(work, number, cause, reason)
            case Began(grant=grant, host=host):
                self._watcher.began(work, number, attempt.directory, grant.gpus, host)
            case Finished():
                del self._flights[attempt.task.index, number]
                flight.finished.set_result(event)

    def _fail(self, error: Exception) -> None:
        """Fail all pending attempts with an error that stops the executor."""
        self._failure = error
        for flight in self._flights.values():
            if not flight.finished.done():
                flight.finished.set_exception(error)


def _is_same(work: Work, other: Work) -> bool:
    """Whether two tasks of the same name have the same algorithm and input."""
    digest = digest_of(work.input)
    return digest != "" and digest == digest_of(other.input) and work.algorithm == other.algorithm


def _is_unread_success(event: dict[str, Any]) -> bool:
    """Whether a cleanup recorded the success of an attempt whose result no session has read."""
    return event["event"] == "ended" and event["outcome"] == "succeeded" and "why" not in event

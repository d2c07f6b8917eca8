"""Tasks in an engine's queue: submitted in chunks, watched, and taken over by later sessions.

The executor writes each chunk to a file before its submission (`ChunkFiles`), so that the next
session of the run finds it. A thread makes the calls to the engine, one at a time (`Calls`). The
loop meanwhile reads the records that agents write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from tarmac.executors.attempt import Attempt
from tarmac.executors.events import Began, Event, Queued
from tarmac.executors.interface import Busy, Site
from tarmac.executors.queueing.calls import Call, Calls
from tarmac.executors.queueing.cancellations import Cancellations
from tarmac.executors.queueing.chunks import ChunkFiles, ChunkRecord
from tarmac.executors.queueing.clusters import ClusterId
from tarmac.executors.queueing.elsewhere import refuse_other_cluster
from tarmac.executors.queueing.engine import Accepted, Engine
from tarmac.executors.queueing.held import SubmittedAttempt, SubmittedChunk, evidence_of
from tarmac.executors.queueing.ledger import Ledger, grant_of
from tarmac.executors.queueing.submissions import GATHER_S, MAX_HELD, Submissions
from tarmac.executors.queueing.verdict import Judge, Patience
from tarmac.executors.queueing.watch import Watch
from tarmac.executors.spool import Spool
from tarmac.node import AttemptSpec

_STOPPED = "the run was stopped"

# A call to an engine returns within two minutes, with an answer or with `Silent`.
_LONGEST_CALL_S = 180.0


class QueueingExecutor:
    """Runs attempts in an engine's queue.

    Args:
        engine: Engine whose queue holds the attempts.
        site: Directory, tasks and settings of the run.
        prepare: Returns an agent's element for an attempt and its chunk's nonce. An exception fails
            the attempt.
        spool: Secrets of the run, removed with the last attempt. Default: a new `Spool`.
        patience: Seconds to wait for records and for the engine. Default: those of `Patience`.
        find_again_s: Seconds between two searches for a chunk that the engine may have. Default 10.
        gather_s: Seconds between two submissions, so that attempts gather in larger chunks.
    """

    queues = True

    def __init__(
        self,
        engine: Engine,
        site: Site,
        prepare: Callable[[Attempt, str], AttemptSpec],
        *,
        spool: Spool | None = None,
        patience: Patience | None = None,
        find_again_s: float = 10.0,
        gather_s: float = GATHER_S,
    ) -> None:
        self._calls = Calls()
        self._run = site.run
        self._spool = spool or Spool(site.run)
        self._is_detached = False
        self._title, self._keeps_units = engine.title, engine.keeps_units
        self._ask_for_cluster, self._find = engine.cluster, engine.find
        self._ledger = Ledger(ChunkFiles(site.run), engine.title, keep_going=site.keep_going)
        self._cancellations = Cancellations(self._ledger, engine)
        self._submissions = Submissions(
            self._ledger,
            engine,
            prepare,
            self._cancellations,
            concurrency=site.concurrency,
            find_again_s=find_again_s,
            gather_s=gather_s,
        )
        judge = Judge(engine=engine.title, run=str(site.run), patience=patience or Patience())
        self._watch = Watch(self._ledger, engine, judge, self._submissions, self._cancellations)
        self._refusal = ""

    @property
    def is_idle(self) -> bool:
        """Whether the executor holds no attempts."""
        return not self._ledger.flights

    def start(self, attempts: Sequence[Attempt]) -> Sequence[Began | Queued | Busy]:
        """Accept attempts while there is room; see `Executor`."""
        return [self._take_on(attempt) for attempt in attempts]

    def wait(self, patience_s: float) -> Sequence[Event]:
        """Return the events since the last call; see `Executor`."""
        # The caller has recorded the last events. Had it been killed first, `attach` would repeat
        # them.
        self._ledger.settle()
        deadline = time.monotonic() + patience_s
        while True:
            self._step()
            now = time.monotonic()
            if self._ledger.events or now >= deadline:
                break
            self._calls.finish(min(deadline, self._next_step(now)) - now)
        events, self._ledger.events = self._ledger.events, []
        return events

    def look_now(self) -> None:
        """Read records and poll the engine at once; callable from any thread."""
        self._watch.poll_now()
        self._calls.wake()

    def end(self, attempt: Attempt, reason: str, grace_s: float) -> None:  # noqa: ARG002 - the attempt's element has KillWait
        """End one attempt, within the engine's fixed grace period; see `Executor`."""
        flight = self._ledger.flights.get((attempt.task.index, attempt.number))
        if flight is None or flight.evidence.end_reason:
            return
        flight.evidence.end_reason = reason
        chunk = self._ledger.chunk_of(flight)
        if chunk is not None:
            self._cancellations.end(chunk, flight)
        elif self._submissions.backlog.remove(flight):
            self._ledger.interrupt(flight, reason)

    def stop(self) -> None:
        """End all attempts; see `Executor`."""
        self._stop(_STOPPED)

    def attach(self, make: Callable[[int, int], Attempt | None]) -> Sequence[Queued | Began]:
        """Take over the attempts that an earlier session has left; see `Executor`.

        Raises:
            RequestError: The attempts are on another cluster.
        """
        left = self._ledger.files.left()
        self._refuse_other_cluster(left)
        events: list[Queued | Began] = []
        for record in left:
            events += self._take_up(record, make)
        self._watch.poll_soon()
        return events

    @property
    def cluster(self) -> ClusterId | None:
        """The cluster that commands reach; None while it does not identify itself."""
        return self._ask_for_cluster()

    def _refuse_other_cluster(self, left: Sequence[ChunkRecord]) -> None:
        recorded = [record for record in left if record.cluster is not None]
        if recorded and self._keeps_units:
            refuse_other_cluster(self._run, self._title, recorded, self.cluster, self._has)

    def _has(self, chunk: ChunkRecord) -> bool:
        return isinstance(self._find(chunk), Accepted)

    def detach(self) -> None:
        """Submit the remaining attempts while the engine takes them, then release all attempts.

        Released attempts keep their secrets.
        """
        self._is_detached = True
        self._settle()
        while not self._ledger.is_engine_silent:
            # Submit at once: no attempt follows to fill larger chunks.
            call = self._submissions.submit(float("inf"))
            if call is None:
                break
            self._calls.make(call)
            self._settle()

    def close(self) -> None:
        """Release all resources; see `Executor`."""
        self._settle()
        # Attempts of a session that broke off are still in the engine's queue, with their secrets.
        if not self._is_detached and self.is_idle:
            self._clear()

    def _clear(self) -> None:
        """Remove what only attempts need; called once none is left."""
        self._spool.remove()

    def _settle(self) -> None:
        """Wait for a call in progress, so that its result is recorded."""
        if not self._calls.is_idle:
            self._calls.finish(_LONGEST_CALL_S)

    def _step(self) -> None:
        """Take an answer, read records, and make the next call that is due."""
        if not self._calls.is_idle:
            self._calls.finish(0.0)
        self._watch.read_records(time.monotonic())
        if self._ledger.has_failed_alike and not self._refusal:
            reason = self._ledger.has_failed_alike
            self._refusal = (
                f"not started: the first attempts have all failed alike: {reason} "
                "(--keep-going starts the others too)"
            )
            self._stop(self._refusal)
        if self._calls.is_idle:
            call = self._next_call(time.monotonic())
            if call is not None:
                self._calls.make(call)

    def _next_call(self, now: float) -> Call[Any] | None:
        """Return the most urgent call that is due; None for none."""
        return (
            self._cancellations.call(now)
            or self._submissions.avoid(now)
            or self._submissions.find(now)
            or self._submissions.submit(now)
            or self._watch.ask(now)
            or self._watch.look(now)
            or self._submissions.throttle()
        )

    def _next_step(self, now: float) -> float:
        """Return when the next step is due, by the monotonic clock.

        Overdue steps do not count: they wait for a record or an answer.
        """
        times = self._watch.times()
        if self._calls.is_idle:
            times += [*self._submissions.times(), *self._cancellations.times()]
        return min((due for due in times if due > now), default=float("inf"))

    def _take_on(self, attempt: Attempt) -> Queued | Busy:
        if len(self._ledger.flights) >= MAX_HELD:
            return Busy.FULL
        flight = SubmittedAttempt(attempt)
        self._ledger.flights[flight.key] = flight
        if self._refusal:
            self._ledger.interrupt(flight, self._refusal)
        else:
            self._submissions.backlog.push(flight)
        return Queued(attempt)

    def _take_up(
        self, record: ChunkRecord, make: Callable[[int, int], Attempt | None]
    ) -> list[Queued | Began]:
        flights = {}
        for index, (task, number) in enumerate(record.attempts):
            attempt = make(task, number)
            if attempt is not None:
                flights[index] = SubmittedAttempt(attempt, index, evidence_of(record, index))
        chunk = SubmittedChunk(record, flights)
        self._ledger.chunks[record.number] = chunk
        if not flights:
            self._ledger.let_go(chunk)
        for flight in flights.values():
            self._ledger.flights[flight.key] = flight
            self._watch.take_up(chunk, flight)
        return [self._answer_of(chunk, flight) for flight in flights.values()]

    def _answer_of(self, chunk: SubmittedChunk, flight: SubmittedAttempt) -> Queued | Began:
        record = flight.evidence.record
        if flight.has_begun and record is not None:
            return Began(flight.attempt, grant_of(flight.attempt, record), record.host)
        return Queued(flight.attempt, chunk.record.job)

    def _stop(self, reason: str) -> None:
        for flight in self._submissions.backlog:
            self._submissions.backlog.remove(flight)
            self._ledger.interrupt(flight, reason)
        for flight in self._ledger.flights.values():
            flight.evidence.end_reason = flight.evidence.end_reason or reason
        for chunk in self._ledger.chunks.values():
            self._cancellations.end_chunk(chunk)

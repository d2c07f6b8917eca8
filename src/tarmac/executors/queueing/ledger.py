"""The attempts and chunks of an executor, and the events to report."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterable

from tarmac.executors.attempt import Attempt
from tarmac.executors.events import (
    DISTURBANCES,
    Began,
    Cause,
    Event,
    Finished,
    Queued,
    Requeued,
    Waiting,
)
from tarmac.executors.queueing.chunks import ChunkFiles, ChunkRecord
from tarmac.executors.queueing.engine import Ending, Silent
from tarmac.executors.queueing.failures import FirstFailures, Hosts
from tarmac.executors.queueing.held import MAX_TOLD, SubmittedAttempt, SubmittedChunk
from tarmac.node import AttemptRecord
from tarmac.tasks.machine import Grant

# With fewer attempts left, stopping early saves nothing.
_MANY = 100


class Ledger:
    """The attempts and chunks in hand; every event goes through it, each end once.

    Args:
        files: Chunk files of the run.
        engine: The engine's title, for messages.
        keep_going: Whether to continue after the first attempts have all failed alike.

    Attributes:
        flights: All attempts that have not finished, by task and number.
        chunks: Chunks that the engine has or may have, by number.
        events: Events to return from the next `Executor.wait`.
        hosts: Failures by host, and the hosts to avoid.
        has_failed_alike: Reason that the first attempts' failures share; empty where they did not
            all fail alike.
    """

    def __init__(self, files: ChunkFiles, engine: str, *, keep_going: bool = False) -> None:
        self.files = files
        self._engine = engine
        self.flights: dict[tuple[int, int], SubmittedAttempt] = {}
        self.chunks: dict[int, SubmittedChunk] = {}
        self.events: list[Event] = []
        self.hosts = Hosts()
        self.has_failed_alike = ""
        self._first = None if keep_going else FirstFailures()
        self._silent_since = ""
        self._over: list[ChunkRecord] = []

    @property
    def is_engine_silent(self) -> bool:
        """Whether the last call to the engine got no answer."""
        return bool(self._silent_since)

    def chunk_of(self, flight: SubmittedAttempt) -> SubmittedChunk | None:
        """Return the chunk that contains an attempt; None for an attempt without a chunk."""
        held = self.chunks.values()
        return next((chunk for chunk in held if chunk.flights.get(flight.index) is flight), None)

    def note_queued(self, chunk: SubmittedChunk) -> None:
        """Report the attempts of a chunk as queued."""
        for flight in chunk.flights.values():
            if not flight.has_begun:
                self.events.append(Queued(flight.attempt, chunk.record.job))

    def begin(self, flight: SubmittedAttempt, record: AttemptRecord, *, is_told: bool) -> None:
        """Note that an attempt has begun."""
        flight.has_begun, flight.began_at = True, time.monotonic()
        flight.restart, flight.reported_reason = record.restart, ""
        self.hosts.note_start(record.host, flight.attempt.task.spec)
        if is_told:
            grant = grant_of(flight.attempt, record)
            self.events.append(Began(flight.attempt, grant, record.host))

    def requeue(
        self, flight: SubmittedAttempt, record: AttemptRecord | None, ending: Ending | None
    ) -> None:
        """Note that a running attempt is back in the queue.

        Args:
            flight: Attempt that waits again.
            record: Record of the try that is over; None where there is none.
            ending: The engine's report of the last try's end, or of an earlier try's.
        """
        cause: Cause = "evicted"
        reason = f"{self._engine} has requeued it"
        if ending is not None and ending.when != flight.requeued_when:
            flight.requeued_when = ending.when
            if ending.cause in DISTURBANCES:
                cause, reason = ending.cause, ending.words
        elif record is not None and record.state != "ended":
            # With any other cause, the agent ends the attempt and the node's daemon reports an
            # ending.
            cause, reason = "node", f"its node {record.host} was lost"
        if record is not None and cause == "node":
            lost = Finished(flight.attempt, "failed", cause=cause, host=record.host)
            if avoided := self.hosts.note(lost, flight.began_at):
                reason = f"{reason}; {avoided}"
        self.events.append(Requeued(flight.attempt, cause, reason))
        flight.has_begun = False

    def finish(
        self, chunk: SubmittedChunk, finished: Finished, *, is_charged: bool = False
    ) -> None:
        """End an attempt of a chunk, and the chunk with its last one.

        Args:
            chunk: Chunk that has the attempt.
            finished: Result of the attempt, which becomes an event.
            is_charged: Whether the attempt's host was charged with the failure already.
        """
        flight = self.flights[finished.attempt.task.index, finished.attempt.number]
        chunk.forget(flight.index)
        if not chunk.flights:
            del self.chunks[chunk.record.number]
            self._over.append(chunk.record)
        avoided = "" if is_charged else self.hosts.note(finished, flight.began_at)
        if avoided:
            finished = dataclasses.replace(finished, reason=f"{finished.reason}; {avoided}")
        self._end(flight, finished)
        alike = self._first.note(finished) if self._first is not None else None
        if alike is not None and len(self.flights) >= _MANY:
            self.has_failed_alike = alike

    def may_others_tell(self, flight: SubmittedAttempt, spec: str) -> bool:
        """Return whether other attempts in hand may show whether hosts start such tasks.

        Args:
            flight: Attempt that was not started.
            spec: Name of the spec that the other tasks must have; empty for any.
        """
        return any(
            other.evidence.suspected_at is None and spec in ("", other.attempt.task.spec)
            for other in self.flights.values()
            if other is not flight
        )

    def interrupt(
        self, flight: SubmittedAttempt, reason: str, chunk: SubmittedChunk | None = None
    ) -> None:
        """End an attempt that has not begun, on request."""
        finished = Finished(flight.attempt, "interrupted", reason, cause="stop")
        if chunk is not None:
            self.finish(chunk, finished)
        else:
            self._end(flight, finished)

    def refuse(self, flight: SubmittedAttempt, reason: str) -> None:
        """End an attempt without a chunk, because it cannot start."""
        if flight.evidence.end_reason:
            self.interrupt(flight, flight.evidence.end_reason)
        else:
            self._end(flight, Finished(flight.attempt, "failed", reason, cause="start"))

    def let_go(self, chunk: SubmittedChunk) -> None:
        """Record that a chunk is over; none of its attempts is left."""
        del self.chunks[chunk.record.number]
        self.files.write(chunk.record.model_copy(update={"state": "over"}))

    def settle(self) -> None:
        """Record which chunks are over, once the caller has recorded the reported ends."""
        over, self._over = self._over, []
        for record in over:
            self.files.write(record.model_copy(update={"state": "over"}))

    def wait_for(self, flights: Iterable[SubmittedAttempt], words: str) -> None:
        """Report why attempts wait, where the reason has changed.

        Args:
            flights: Attempts that wait in the queue, or are suspended after their start.
            words: Reason for people; empty once an attempt that has begun continues.
        """
        for flight in flights:
            if flight.reported_reason != words and flight.key in self.flights:
                flight.reported_reason = words
                self.events.append(Waiting(flight.attempt, words, is_at_work=flight.has_begun))

    def on_no_answer(self, silent: Silent, flights: Iterable[SubmittedAttempt] = ()) -> None:
        """Note that the engine gave no answer, and report that for some of the attempts."""
        self._silent_since = self._silent_since or time.strftime("%H:%M")
        words = f"{silent.words}, since {self._silent_since}; running tasks continue"
        at_work = (flight for flight in self.flights.values() if flight.has_begun)
        self.wait_for([*flights, *itertools.islice(at_work, MAX_TOLD)], words)

    def hear_answer(self) -> None:
        """Note that the engine answers again."""
        if self._silent_since:
            self._silent_since = ""
            for flight in self.flights.values():
                if flight.has_begun:
                    self.wait_for([flight], "")
                flight.reported_reason = ""

    def _end(self, flight: SubmittedAttempt, finished: Finished) -> None:
        del self.flights[flight.key]
        self.events.append(finished)


def grant_of(attempt: Attempt, record: AttemptRecord) -> Grant:
    """Return the resources that an attempt holds on its node."""
    needs = attempt.task.resources
    share = min(needs.gpus, 1.0) if record.gpus else 0.0
    return Grant(needs.cpus, needs.memory or 0, tuple(record.gpus), share)

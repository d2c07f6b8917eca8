"""Submits attempts in chunks, each chunk exactly once, whatever the engine answers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from tarmac.errors import TarmacError
from tarmac.executors.attempt import Attempt
from tarmac.executors.events import Cause, Finished
from tarmac.executors.queueing.backlog import Backlog
from tarmac.executors.queueing.calls import Call
from tarmac.executors.queueing.cancellations import Cancellations
from tarmac.executors.queueing.chunks import ChunkRecord
from tarmac.executors.queueing.engine import Accepted, Engine, Full, Refused, Silent, TooLarge
from tarmac.executors.queueing.fences import fence_unbegun
from tarmac.executors.queueing.held import (
    MAX_TOLD,
    SubmittedAttempt,
    SubmittedChunk,
    evidence_of,
)
from tarmac.executors.queueing.ledger import Ledger
from tarmac.executors.queueing.window import Window
from tarmac.node import AttemptSpec

# Most attempts in hand, queued and in submission: the default limit on the jobs of all users of a
# site together (slurm.conf(5), MaxJobCount).
MAX_HELD = 10_000

# Most attempts in a chunk: one array in place of a thousand jobs, and still quickly written.
_MAX_OF_A_CHUNK = 1000

# Pause between two submissions while units still wait, so that attempts which become ready one by
# one share a chunk.
GATHER_S = 2.0

# At a site's limit, a small chunk waits longer than that for more units to end, so that their
# places are filled by one submission.
_GATHER_LONGER_S = 10.0
_SMALL_PART = 4

# Backoff after no answer or a full queue.
_AGAIN_SOON_S, _AGAIN_SELDOM_S = 5.0, 60.0

# Searches for a chunk before it is submitted again.
_FINDS = 2

_Answer = Accepted | Full | TooLarge | Refused | Silent


def chunk_size(engine: Engine, per_unit: int) -> int:
    """Return the most units of a chunk."""
    return min(engine.most_units, max(1, _MAX_OF_A_CHUNK // per_unit))


@dataclasses.dataclass(frozen=True)
class _Made:
    """A chunk after its submission.

    Attributes:
        record: Record of the chunk, as its file has it.
        flights: Attempts of the chunk, in the order of its elements.
        failures: Attempts that could not be prepared, each with its reason.
        held: Number of units that the engine had before.
        at_once: Most of its units that may run at once; None for no limit.
        answer: The engine's answer to the submission.
    """

    record: ChunkRecord
    flights: Sequence[SubmittedAttempt]
    failures: Sequence[tuple[SubmittedAttempt, str]]
    held: int
    at_once: int | None
    answer: _Answer


class Submissions:
    """Submits attempts in chunks, as many as the site accepts.

    A chunk is written before its submission, and searched for before it is submitted again.

    Args:
        ledger: Attempts and chunks in hand; gets the new chunks.
        engine: Engine that the chunks are submitted to.
        prepare: Returns an agent's element for an attempt and its chunk's nonce.
        cancellations: Ends attempts whose end was requested during their submission.
        concurrency: Most units at once; None for no limit.
        find_again_s: Seconds between two searches for a chunk.
        gather_s: Seconds between two submissions, so that attempts gather in larger chunks.
    """

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        prepare: Callable[[Attempt, str], AttemptSpec],
        cancellations: Cancellations,
        *,
        concurrency: int | None,
        find_again_s: float,
        gather_s: float = GATHER_S,
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._prepare = prepare
        self._cancellations = cancellations
        self._concurrency = concurrency
        self._find_again_s = find_again_s
        self._gather_s = gather_s
        self._window = Window(MAX_HELD)
        self._most_units = engine.most_units
        self._submit_at = 0.0
        self._avoid_at = 0.0
        self._pause_s = 0.0
        self.backlog = Backlog(engine.shape)

    def times(self) -> list[float]:
        """Return when the next steps may be due, by the monotonic clock."""
        unsure = (chunk for chunk in self._ledger.chunks.values() if not chunk.is_submitted)
        due = (self._submit_at, self._submit_at + _GATHER_LONGER_S, self._avoid_at)
        return [*due, *(chunk.look_at for chunk in unsure)]

    def find(self, now: float) -> Call[Any] | None:
        """Return the call that searches for a chunk of unknown state; None where none is due."""
        for chunk in self._ledger.chunks.values():
            if not chunk.is_submitted and now >= chunk.look_at:
                return self._find(chunk)
        return None

    def submit(self, now: float) -> Call[Any] | None:
        """Return the call that submits the next chunk; None where none is due."""
        if not self.backlog or now < self._submit_at:
            return None
        shape, flights = self.backlog.next()
        per_unit = self._engine.terms(flights[0].attempt.task).per_unit
        chunks = self._ledger.chunks.values()
        held = sum(chunk.num_units() for chunk in chunks)
        waiting = sum(chunk.num_waiting() for chunk in chunks)
        room, wanted = self._window.room(held), -(-len(flights) // per_unit)
        # Each call should submit many units: while enough units wait, more attempts gather.
        enough = max(1, (held - waiting) // 4)
        if not room or (room < wanted and waiting > enough):
            return None
        is_small = room < wanted and room < self._window.size // _SMALL_PART
        if is_small and now < self._submit_at + _GATHER_LONGER_S:
            return None
        if self._concurrency is not None and (waiting or held >= self._concurrency):
            return None
        at_once = None if self._concurrency is None else self._concurrency - held
        units = min(room, wanted, self._most_units, chunk_size(self._engine, per_unit))
        taken = self.backlog.take(units * per_unit)
        keys = [flight.key for flight in taken]
        record = self._ledger.files.make(dict(shape), keys, per_unit)
        return Call(lambda: self._write_and_submit(record, taken, held, at_once), self._on_answer)

    def avoid(self, now: float) -> Call[Any] | None:
        """Return the call that keeps waiting units off the hosts to avoid; None for none."""
        hosts = frozenset(self._ledger.hosts.excluded)
        # An empty set of hosts lifts an earlier exclusion.
        for chunk in self._ledger.chunks.values() if now >= self._avoid_at else ():
            if chunk.record.job and chunk.avoided != hosts and chunk.num_waiting():
                return self._avoid(chunk, hosts)
        return None

    def _avoid(self, chunk: SubmittedChunk, hosts: frozenset[str]) -> Call[Any]:
        def hear(answer: Silent | None) -> None:
            if answer is None:
                chunk.avoided = hosts
            else:
                self._avoid_at = time.monotonic() + _AGAIN_SOON_S

        return Call(lambda: self._engine.avoid(chunk.record, hosts), hear)

    def throttle(self) -> Call[Any] | None:
        """Return the call that lets more waiting units run after others ended; None for none."""
        chunks = [*self._ledger.chunks.values()]
        if self._concurrency is None or not chunks:
            return None
        last = chunks[-1]
        if last.most_at_once is None or not last.record.job or not last.num_waiting():
            return None
        others = sum(chunk.num_units() for chunk in chunks if chunk is not last)
        at_once = max(1, self._concurrency - others)
        if at_once == last.most_at_once:
            return None

        def hear(answer: Silent | None) -> None:
            if answer is None:
                last.most_at_once = at_once

        return Call(lambda: self._engine.throttle(last.record, at_once), hear)

    def note_submitted(self, chunk: SubmittedChunk, job: str) -> None:
        """Record that the engine has a chunk; report it queued once the engine's name is known."""
        chunk.record = chunk.record.model_copy(update={"state": "submitted", "job": job})
        self._ledger.files.write(chunk.record)
        if job:
            self._ledger.note_queued(chunk)

    def _write_and_submit(
        self,
        record: ChunkRecord,
        flights: Sequence[SubmittedAttempt],
        held: int,
        at_once: int | None,
    ) -> _Made:
        elements, taken, failures = [], [], []
        for flight in flights:
            try:
                elements.append(self._prepare(flight.attempt, record.nonce))
                taken.append(flight)
            except TarmacError as error:
                failures.append((flight, f"not started: {error}"))
        attempts = tuple(flight.key for flight in taken)
        cluster = self._engine.cluster()
        record = record.model_copy(update={"attempts": attempts, "cluster": cluster})
        answer: _Answer = Refused("")
        if taken:
            self._ledger.files.write(record, elements)
            answer = self._ask(record, at_once)
            record = self._note(record, answer)
        return _Made(record, taken, failures, held, at_once, answer)

    def _ask(self, record: ChunkRecord, at_once: int | None) -> _Answer:
        excluded = frozenset(self._ledger.hosts.excluded)
        answer = self._engine.submit(record, most_at_once=at_once, excluded=excluded)
        if excluded and isinstance(answer, Refused):
            # Perhaps only an excluded host has what the chunk needs, and an unreliable host beats
            # none.
            answer = self._engine.submit(record, most_at_once=at_once, excluded=())
        return answer

    def _note(self, record: ChunkRecord, answer: _Answer) -> ChunkRecord:
        """Record the engine's answer, if there was one."""
        if isinstance(answer, Silent):
            return record
        if isinstance(answer, Accepted):
            record = record.model_copy(update={"state": "submitted", "job": answer.job})
        else:
            record = record.model_copy(update={"state": "over"})
        self._ledger.files.write(record)
        return record

    def _on_answer(self, made: _Made) -> None:
        now = time.monotonic()
        for flight, reason in made.failures:
            self._ledger.refuse(flight, reason)
        num_units = made.record.num_units
        match made.answer:
            case Accepted():
                self._ledger.hear_answer()
                self._hold(made)
                self._window.accept(made.held + num_units)
                self._submit_at, self._pause_s = now + self._gather_s, 0.0
            case Silent() as silent:
                self._hold(made)
                self._ledger.on_no_answer(silent, made.flights[:MAX_TOLD])
                self._back_off(now)
            case Full() as full:
                self._ledger.hear_answer()
                self._window.refuse(made.held, num_units)
                self._take_back(made.flights, full.words)
                # A smaller chunk may be accepted at once; a single unit only once others have
                # ended.
                if num_units == 1 or not self._window.room(made.held):
                    self._back_off(now)
            case TooLarge() as large:
                self._ledger.hear_answer()
                # Later chunks are mostly alike. Halving needs no estimate of each unit's size.
                self._most_units = max(1, num_units // 2)
                self._take_back(made.flights, large.words)
            case Refused() as refused:
                for flight in made.flights:
                    self._ledger.refuse(flight, refused.words)

    def _hold(self, made: _Made) -> None:
        for index, flight in enumerate(made.flights):
            flight.index = index
            reason = flight.evidence.end_reason
            flight.evidence = evidence_of(made.record, index)
            flight.evidence.end_reason = reason
        chunk = SubmittedChunk(
            made.record, dict(enumerate(made.flights)), most_at_once=made.at_once
        )
        self._ledger.chunks[chunk.record.number] = chunk
        if chunk.is_submitted:
            self._ledger.note_queued(chunk)
        self._cancellations.catch_up(chunk)

    def _take_back(self, flights: Sequence[SubmittedAttempt], words: str) -> None:
        interrupted = [flight for flight in flights if flight.evidence.end_reason]
        for flight in interrupted:
            self._ledger.interrupt(flight, flight.evidence.end_reason)
        wanted = [flight for flight in flights if not flight.evidence.end_reason]
        self.backlog.put_back(wanted)
        self._ledger.wait_for(wanted[:MAX_TOLD], words)

    def _back_off(self, now: float) -> None:
        self._pause_s = min(max(_AGAIN_SOON_S, 2 * self._pause_s), _AGAIN_SELDOM_S)
        self._submit_at = now + self._pause_s

    def _find(self, chunk: SubmittedChunk) -> Call[Any]:
        record = chunk.record
        if chunk.looks < _FINDS:
            return Call(
                lambda: self._engine.find(record), lambda answer: self._hear_of_find(chunk, answer)
            )
        at_once = chunk.most_at_once
        return Call(
            lambda: self._ask(record, at_once), lambda answer: self._on_resubmit(chunk, answer)
        )

    def _hear_of_find(self, chunk: SubmittedChunk, answer: Accepted | Silent | None) -> None:
        if chunk.is_submitted or not chunk.flights:
            # A record has shown meanwhile that the engine has the chunk.
            return
        now = time.monotonic()
        if isinstance(answer, Silent):
            self._ledger.on_no_answer(answer, chunk.next_waiting())
            chunk.look_at = now + _AGAIN_SOON_S
            return
        self._ledger.hear_answer()
        if answer is not None:
            self.note_submitted(chunk, answer.job)
            return
        chunk.looks += 1
        chunk.look_at = now + (self._find_again_s if chunk.looks < _FINDS else 0.0)
        if chunk.looks >= _FINDS and all(f.evidence.end_reason for f in chunk.flights.values()):
            self._give_up(chunk, "stop", "")

    def _on_resubmit(self, chunk: SubmittedChunk, answer: _Answer) -> None:
        """Handle the answer to the second submission of a chunk."""
        now = time.monotonic()
        match answer:
            case Accepted():
                self.note_submitted(chunk, answer.job)
                self._cancellations.catch_up(chunk)
            case Silent() as silent:
                self._ledger.on_no_answer(silent, chunk.next_waiting())
                chunk.looks, chunk.look_at = 0, now + _AGAIN_SOON_S
            case Full() as full:
                others = (held for held in self._ledger.chunks.values() if held is not chunk)
                self._window.refuse(sum(held.num_units() for held in others), chunk.num_units())
                self._give_up(chunk, "evicted", full.words)
                self._back_off(now)
            case TooLarge() as large:
                self._most_units = max(1, chunk.num_units() // 2)
                self._give_up(chunk, "evicted", large.words)
            case Refused() as refused:
                self._give_up(chunk, "start", refused.words)

    def _give_up(self, chunk: SubmittedChunk, cause: Cause, words: str) -> None:
        """End attempts that the engine does not have, and fence them against a late start."""
        for flight in [*chunk.flights.values()]:
            if not fence_unbegun(flight.attempt, chunk.record.nonce):
                continue
            if flight.evidence.end_reason:
                self._ledger.interrupt(flight, flight.evidence.end_reason, chunk)
            else:
                finished = Finished(flight.attempt, "failed", words, cause=cause)
                self._ledger.finish(chunk, finished)
        if chunk.flights:
            # An agent has claimed an attempt first, so the engine has the chunk.
            self.note_submitted(chunk, "")

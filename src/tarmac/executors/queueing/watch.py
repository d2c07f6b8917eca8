"""Watches records and the engine's queue, and finishes attempts that are over."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tarmac.executors.events import DISTURBANCES, Finished
from tarmac.executors.queueing.calls import Call
from tarmac.executors.queueing.cancellations import Cancellations
from tarmac.executors.queueing.engine import Ending, Engine, Shown, Silent, UnitName
from tarmac.executors.queueing.failures import Blame
from tarmac.executors.queueing.fences import fence_at_work, fence_unbegun
from tarmac.executors.queueing.held import SubmittedAttempt, SubmittedChunk
from tarmac.executors.queueing.ledger import Ledger
from tarmac.executors.queueing.submissions import Submissions
from tarmac.executors.queueing.verdict import Judge, Next, Over
from tarmac.node import AttemptRecord, read_attempt

# Between two polls of the engine's queue: short after a change, longer without any.
_LOOK_SOON_S, _LOOK_SELDOM_S = 5.0, 60.0

# After a cancellation, which engines perform at once.
_LOOK_AT_ONCE_S = 0.5

# Between two queries about units that the engine no longer shows.
_ASK_SOON_S, _ASK_SELDOM_S = 5.0, 60.0
_MAX_ASKED = 500

# The interval between reads of records, and the most of the time that reads may take.
_READ_SOON_S, _READ_SELDOM_S = 0.1, 2.0
_READ_PART = 0.05


class Watch:
    """Follows attempts by their records and by the engine's answers.

    Args:
        ledger: Attempts and chunks in hand; gets each start and end.
        engine: Engine that shows the units in its queue.
        judge: Decides when an attempt is over.
        submissions: Learns which chunks the engine has, once a record appears.
        cancellations: Ends the units of attempts that are given up.
    """

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        judge: Judge,
        submissions: Submissions,
        cancellations: Cancellations,
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._judge = judge
        self._submissions = submissions
        self._cancellations = cancellations
        self._newest = -1
        self._doubtful: dict[tuple[int, int], tuple[SubmittedChunk, SubmittedAttempt]] = {}
        self._look_at, self._look_pause_s, self._looked_at = 0.0, _LOOK_SOON_S, 0.0
        self._has_news = threading.Event()
        self._ask_at, self._ask_pause_s = 0.0, 0.0
        self._read_at, self._read_pause_s = 0.0, _READ_SOON_S

    def times(self) -> list[float]:
        """Return when the next steps may be due, by the monotonic clock."""
        return [self._read_at, self._look_at, self._ask_at] if self._ledger.chunks else []

    def poll_soon(self) -> None:
        """Poll soon: a chunk was submitted or taken over."""
        now = time.monotonic()
        self._read_at, self._read_pause_s = now, _READ_SOON_S
        self._look_pause_s = _LOOK_SOON_S
        self._look_at = min(self._look_at, now + _LOOK_SOON_S)

    def poll_now(self) -> None:
        """Poll now, as the engine reported an end; callable from any thread."""
        self._has_news.set()
        self._read_at = self._look_at = self._ask_at = 0.0

    def take_up(self, chunk: SubmittedChunk, flight: SubmittedAttempt) -> None:
        """Read the state of an attempt of an earlier session, without an event."""
        self._read(chunk, flight, is_told=False)
        record = flight.evidence.record
        if record is not None and record.state == "ended":
            self._doubtful[flight.key] = (chunk, flight)

    def read_records(self, now: float) -> None:
        """Read the records of attempts that run or may have begun, where a read is due."""
        newest = max(self._ledger.chunks, default=-1)
        if newest > self._newest:
            self._newest = newest
            self.poll_soon()
        if now < self._read_at:
            return
        has_news = False
        for chunk in [*self._ledger.chunks.values()]:
            for flight in chunk.at_work():
                has_news |= self._read(chunk, flight)
            for portion in chunk.next_to_begin():
                if True not in [self._read(chunk, flight) for flight in portion]:
                    break
                has_news = True
        for chunk, flight in self._still_doubtful():
            if flight.evidence.record is None:
                has_news |= self._read(chunk, flight)
        for chunk, flight in self._still_doubtful():
            self._decide(chunk, flight, now)
        ended = time.monotonic()
        if has_news:
            self.poll_soon()
        else:
            self._read_pause_s = min(self._read_pause_s * 1.2, _READ_SELDOM_S)
        self._read_at = ended + max(self._read_pause_s, (ended - now) / _READ_PART)

    def look(self, now: float) -> Call[Any] | None:
        """Return the call that polls the engine's queue; None where it is not due."""
        if self._cancellations.ended_at > self._looked_at:
            self._look_pause_s = _LOOK_AT_ONCE_S
            self._look_at = min(self._look_at, self._cancellations.ended_at + _LOOK_AT_ONCE_S)
        held = [chunk for chunk in self._ledger.chunks.values() if chunk.is_submitted]
        if now < self._look_at or not held:
            return None
        records = [chunk.record for chunk in held]
        self._has_news.clear()
        return Call(
            lambda: self._engine.look(records), lambda answer: self._hear_look(held, now, answer)
        )

    def ask(self, now: float) -> Call[Any] | None:
        """Return the call that asks how doubtful units ended; None where there are none."""
        if now < self._ask_at:
            return None
        wanted = {
            chunk.unit_of(flight.index): chunk.record
            for chunk, flight in self._still_doubtful()
            if self._judge.judge(flight.evidence, now) is Next.ASK
        }
        if not wanted:
            return None
        units = [(record, name.unit) for name, record in wanted.items()]
        some = [*itertools.islice(units, _MAX_ASKED)]
        self._ask_pause_s = min(max(_ASK_SOON_S, 2 * self._ask_pause_s), _ASK_SELDOM_S)
        self._ask_at = now + (self._ask_pause_s if len(some) == len(units) else 0.0)
        return Call(lambda: self._engine.endings(some), self._hear_endings)

    def _read(
        self, chunk: SubmittedChunk, flight: SubmittedAttempt, *, is_told: bool = True
    ) -> bool:
        """Read an attempt's record; return whether it is new."""
        attempt, evidence = flight.attempt, flight.evidence
        try:
            record = read_attempt(attempt.directory, attempt.number)
        except OSError:
            # A failing file system is no evidence.
            return False
        if record is None or record.nonce != chunk.record.nonce or record == evidence.record:
            return False
        before = evidence.record
        evidence.record, evidence.beat_at = record, time.monotonic()
        if not chunk.is_submitted:
            # A record proves that the engine has the chunk; the engine's name for it follows later.
            self._submissions.note_submitted(chunk, "")
        chunk.claim(flight.index)
        if flight.has_begun and record.restart > flight.restart:
            self._requeue(chunk, flight, before)
        has_run = record.state == "began" or (record.state == "ended" and record.seconds > 0)
        # The earlier agent may write its end late, or continue for a while on a lost node.
        is_of_before = flight.was_requeued(record.restart)
        if has_run and not flight.has_begun and not is_of_before:
            self._ledger.begin(flight, record, is_told=is_told)
        if is_told and record.state == "ended":
            self._decide(chunk, flight, time.monotonic())
            if flight.key in self._ledger.flights:
                # Only the engine knows why the attempt ended.
                self._look_at = 0.0
        return True

    def _decide(self, chunk: SubmittedChunk, flight: SubmittedAttempt, now: float) -> None:
        """Finish an attempt if it is over."""
        evidence = flight.evidence
        over = self._judge.judge(evidence, now)
        if not isinstance(over, Over):
            return
        is_charged = False
        if _is_no_start(flight, over):
            blame = self._blame(flight, over.host, now)
            if blame is None:
                self._doubtful[flight.key] = (chunk, flight)
                return
            if blame == "host":
                is_charged = True
                charged = self._ledger.hosts.charge(
                    flight.attempt.task.index, over.host, is_counted=evidence.counts_alone
                )
                over = dataclasses.replace(over, cause="node", reason=f"{over.reason}; {charged}")
        record = evidence.record
        terms = self._engine.terms(flight.attempt.task)
        finished = Finished(
            flight.attempt,
            over.outcome,
            over.reason,
            cause=over.cause,
            host=over.host,
            goes_on=over.is_engines_limit and terms.goes_on_after_limit,
        )
        if record is not None and record.state == "ended":
            finished = dataclasses.replace(
                finished,
                exit_code=record.exit_code,
                seconds=record.seconds,
                problems=tuple(record.problems),
                bad_host=record.bad_host,
                notes=tuple(record.notes),
            )
            if over.cause in DISTURBANCES:
                # Another attempt follows, so the engine must not start this one again.
                fence_at_work(flight.attempt, over.reason)
        elif over.is_given_up:
            fence_unbegun(flight.attempt, chunk.record.nonce)
            fence_at_work(flight.attempt, over.reason)
            self._cancellations.end_unit(chunk, flight.index)
            if evidence.ending is not None and over.cause == "node":
                finished = dataclasses.replace(finished, bad_host=evidence.ending.bad_host)
        self._ledger.finish(chunk, finished, is_charged=is_charged)

    def _blame(self, flight: SubmittedAttempt, host: str, now: float) -> Blame | None:
        """Return whether host or task is at fault for a failed start; None while undecided."""
        evidence, task, hosts = flight.evidence, flight.attempt.task, self._ledger.hosts
        # Steps before the agent starts are the same for all tasks.
        spec = task.spec if evidence.record is not None else ""
        if evidence.suspected_at is None:
            evidence.suspected_at = now
            # A unit that was not started is one failure, whatever its number of attempts.
            if evidence.counts_alone:
                hosts.note_failed_start(host, spec)
        is_late = now - evidence.suspected_at >= self._judge.patience.others_s
        may_tell = not is_late and self._ledger.may_others_tell(flight, spec)
        return hosts.blame(task.index, host, spec, may_tell=may_tell)

    def _still_doubtful(self) -> list[tuple[SubmittedChunk, SubmittedAttempt]]:
        """Return the attempts in doubt that have not finished."""
        over = [key for key in self._doubtful if key not in self._ledger.flights]
        for key in over:
            del self._doubtful[key]
        return [*self._doubtful.values()]

    def _hear_look(
        self,
        held: Sequence[SubmittedChunk],
        asked_at: float,
        answer: Mapping[UnitName, Shown] | Silent,
    ) -> None:
        now = time.monotonic()
        self._looked_at = asked_at
        self._look_pause_s = min(self._look_pause_s * 1.5, _LOOK_SELDOM_S)
        if isinstance(answer, Silent):
            for chunk in held:
                self._ledger.on_no_answer(answer, chunk.next_waiting())
        else:
            self._ledger.hear_answer()
            for chunk in held:
                self._see_chunk(chunk, answer, asked_at)
        pause_s = self._look_pause_s
        self._look_at = now + (min(pause_s, _LOOK_SOON_S) if self._doubtful else pause_s)
        if self._has_news.is_set():
            # News that arrived during the poll is not in its answer.
            self._look_at = 0.0

    def _see_chunk(
        self, chunk: SubmittedChunk, answer: Mapping[UnitName, Shown], asked_at: float
    ) -> None:
        now = time.monotonic()
        waiting = frozenset(flight.index for flight in chunk.next_waiting())
        for index, flight in [*chunk.flights.items()]:
            shown, evidence = answer.get(chunk.unit_of(index)), flight.evidence
            if shown is None:
                evidence.miss(now)
            else:
                evidence.see(shown, now)
                if index in waiting or flight.has_begun:
                    self._see(chunk, flight, shown, asked_at)
                if shown.phase == "waiting" and not evidence.has_begun:
                    self._end_if_too_long(chunk, flight, shown)
                if not chunk.record.job:
                    self._submissions.note_submitted(chunk, shown.job)
            if evidence.missing_since is None:
                self._doubtful.pop(flight.key, None)
            elif flight.key not in self._doubtful:
                self._doubtful[flight.key] = (chunk, flight)
                self._ask_at, self._ask_pause_s, self._read_at = now, 0.0, now

    def _see(
        self, chunk: SubmittedChunk, flight: SubmittedAttempt, shown: Shown, asked_at: float
    ) -> None:
        """Report changes of an attempt whose unit the engine shows."""
        if shown.phase == "waiting" and flight.has_begun:
            # An attempt that began after the poll started still shows as waiting in its answer.
            if flight.began_at < asked_at:
                self._requeue(chunk, flight, flight.evidence.record)
        elif shown.reason or flight.has_begun:
            self._ledger.wait_for([flight], shown.reason)

    def _requeue(
        self, chunk: SubmittedChunk, flight: SubmittedAttempt, record: AttemptRecord | None
    ) -> None:
        ending = self._engine.final_status(chunk.record, chunk.unit_of(flight.index).unit)
        self._ledger.requeue(flight, record, ending)

    def _end_if_too_long(
        self, chunk: SubmittedChunk, flight: SubmittedAttempt, shown: Shown
    ) -> None:
        """End an attempt that has waited longer than its task's `pending_limit`."""
        limit_s = self._engine.terms(flight.attempt.task).pending_limit_s
        if limit_s is None or flight.evidence.end_reason:
            return
        waited_s = (datetime.now(UTC) - chunk.record.made_at).total_seconds()
        if waited_s < limit_s or not fence_unbegun(flight.attempt, chunk.record.nonce):
            return
        self._cancellations.end_unit(chunk, flight.index)
        why = f": {shown.reason}" if shown.reason else ""
        reason = f"it has waited for {limit_s:g} s, which is its `pending_limit`{why}"
        self._ledger.finish(chunk, Finished(flight.attempt, "failed", reason, cause="start"))

    def _hear_endings(self, answer: Mapping[UnitName, Ending] | Silent) -> None:
        now = time.monotonic()
        if isinstance(answer, Silent):
            self._ledger.on_no_answer(answer)
            return
        self._ledger.hear_answer()
        for chunk, flight in self._still_doubtful():
            ending = answer.get(chunk.unit_of(flight.index))
            if ending is not None:
                flight.evidence.hear(ending, now)
                self._decide(chunk, flight, now)


def _is_no_start(flight: SubmittedAttempt, over: Over) -> bool:
    """Return whether an attempt failed to start on a known host and began nowhere."""
    ending = flight.evidence.ending
    # Where the engine reports success, the program may have run.
    is_unseen = flight.evidence.record is None and ending is not None and ending.cause is None
    is_start = over.outcome == "failed" and over.cause == "start" and not is_unseen
    return is_start and bool(over.host) and flight.attempt.task.resources.nodes == 1

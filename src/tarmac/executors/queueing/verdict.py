"""Decides when an attempt is over, from its record and from the engine.

The record, which the agent writes on the node, decides. The engine's report adds to the record,
and decides where no record comes. No answer is no evidence.
"""

from __future__ import annotations

import dataclasses
import signal
from enum import Enum

from tarmac.executors.events import Cause
from tarmac.executors.interface import Outcome
from tarmac.executors.queueing.engine import Ending, Shown
from tarmac.node import AttemptRecord

# Causes for which an engine may end a unit before its later attempts have begun.
_ENDED_EARLY: frozenset[Cause] = frozenset({"timeout", "memory", "signal", "exit", "start"})

# Causes that the engine reports where the agent itself failed.
_OF_AGENTS: frozenset[Cause] = frozenset({"signal", "exit", "start"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds to wait for a record, and for the engine's reports.

    A network file system mostly shows a new file to other hosts at once, and by default after at
    most 60 s (nfs(5), ``acdirmax``).

    Attributes:
        record_s: Wait for a record, once the engine has reported that its unit failed.
        reason_s: Wait for the engine's reason for ending a unit, once the record shows that it did.
        success_s: Wait for a record, once the engine has reported that its unit succeeded.
        unknown_s: Wait for an engine that does not know a unit to know it again.
        unknown_looks: Least number of polls without the unit, before the unit counts as lost.
        beat_s: Wait for a heartbeat, before the unit counts as lost; agents write one every 30 s.
        others_s: Wait for another host to start such a task, after a host failed to start one.
    """

    record_s: float = 30.0
    reason_s: float = 30.0
    success_s: float = 90.0
    unknown_s: float = 120.0
    unknown_looks: int = 3
    beat_s: float = 75.0
    others_s: float = 60.0


class Next(Enum):
    """The next step for an attempt that is not over.

    Attributes:
        WAIT: Keep watching the record and the engine.
        ASK: Ask the engine how its unit ended.
    """

    WAIT = "wait"
    ASK = "ask"


@dataclasses.dataclass(frozen=True)
class Over:
    """The end of an attempt.

    Attributes:
        outcome: Outcome of the attempt, such as ``failed``.
        cause: Kind of failure; None where the attempt succeeded.
        reason: The cause in words, for people.
        host: Name of the attempt's node; empty where unknown.
        is_given_up: Whether nobody has seen the attempt end, so that a fence must stop it.
        is_engines_limit: Whether the engine's own time limit has ended the attempt.
    """

    outcome: Outcome
    cause: Cause | None = None
    reason: str = ""
    host: str = ""
    is_given_up: bool = False
    is_engines_limit: bool = False


@dataclasses.dataclass
class Evidence:
    """The evidence on an attempt; times by the monotonic clock.

    Attributes:
        record: Record of the attempt in this submission; None while there is none.
        beat_at: Time at which its record last changed.
        shown: Unit of the attempt, as the engine showed it last; None before.
        has_run: Whether the engine has ever shown its unit at work.
        missing_since: Time from which the engine has not shown the unit; None while it does.
        looks: Number of polls of the engine since then.
        ending: Ending of the unit by the engine; None before.
        ended_at: Time at which the engine first reported the ending.
        shares_unit: Whether its unit runs other attempts too.
        follows: Whether its unit runs other attempts before it.
        first: Evidence on the first attempt of its unit, where it follows one that is in hand.
        end_reason: Reason for ending it, in words; empty while nobody has requested its end.
        suspected_at: Time from which the attempt has been over without a start, which may be its
            host's fault; None otherwise.
    """

    record: AttemptRecord | None = None
    beat_at: float = 0.0
    shown: Shown | None = None
    has_run: bool = False
    missing_since: float | None = None
    looks: int = 0
    ending: Ending | None = None
    ended_at: float = 0.0
    shares_unit: bool = False
    follows: bool = False
    first: Evidence | None = None
    end_reason: str = ""
    suspected_at: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the record or the engine shows that the attempt has begun."""
        return self.has_run or self.record is not None

    @property
    def is_unit_unbegun(self) -> bool:
        """Whether no attempt of its unit has begun, according to their records."""
        first = self.first if self.follows else self
        return first is not None and first.record is None

    @property
    def counts_alone(self) -> bool:
        """Whether its failed start counts by itself, not as part of its unit's first failure."""
        return self.record is not None or not self.follows

    @property
    def host(self) -> str:
        """The attempt's host, from the record or the engine; empty where unknown."""
        host = self.ending.host if self.ending is not None else ""
        return (self.record.host if self.record is not None else "") or host

    def see(self, shown: Shown, now: float) -> None:
        """Note that the engine shows its unit."""
        self.shown = shown
        self.has_run = self.has_run or shown.phase == "running"
        if shown.phase == "over":
            self.miss(now)
            if shown.ending is not None:
                self.hear(shown.ending, now)
        else:
            # The engine has started the unit again after reporting its end.
            self.missing_since, self.looks, self.ending = None, 0, None

    def miss(self, now: float) -> None:
        """Note that a poll of the engine did not show its unit."""
        if self.missing_since is None:
            self.missing_since = now
        self.looks += 1

    def hear(self, ending: Ending, now: float) -> None:
        """Note the engine's report of its unit's end."""
        if self.ending is None:
            self.ended_at = now
        self.ending = ending


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judge:
    """Decides whether attempts are over.

    Attributes:
        engine: The engine's title, for messages.
        run: The run's directory, for messages.
        patience: Seconds to wait for records and for the engine.
    """

    engine: str
    run: str
    patience: Patience

    def judge(self, evidence: Evidence, now: float) -> Over | Next:
        """Return whether an attempt is over and how, or what to do next.

        Args:
            evidence: Evidence on the attempt, from its record and the engine.
            now: Time by the monotonic clock.
        """
        record = evidence.record
        if record is not None and record.state == "ended":
            return self._by_record(evidence, record, now)
        if evidence.missing_since is None:
            return Next.WAIT
        if evidence.ending is None:
            return self._by_nobody(evidence, now)
        return self._by_engine(evidence, evidence.ending, now)

    def _by_record(self, evidence: Evidence, record: AttemptRecord, now: float) -> Over | Next:
        """Judge an attempt whose agent has recorded its end."""
        if record.outcome == "interrupted":
            return self._by_interruption(evidence, record, now)
        if record.outcome == "succeeded":
            return Over("succeeded", host=record.host)
        over = Over("failed", _cause(record), record.reason, record.host)
        # The kernel sends SIGKILL to programs that exceed the memory of their control group.
        if record.exit_code != -signal.SIGKILL or over.cause != "signal" or evidence.end_reason:
            return over
        if evidence.ending is not None:
            is_memory = evidence.ending.cause == "memory"
            words = evidence.ending.words
            return Over("failed", "memory", words, record.host) if is_memory else over
        if evidence.missing_since is None:
            return Next.WAIT
        return over if self._is_late(evidence, now) else Next.ASK

    def _by_interruption(
        self, evidence: Evidence, record: AttemptRecord, now: float
    ) -> Over | Next:
        """Judge an attempt that its agent ended on a signal of unknown origin."""
        if evidence.end_reason:
            return Over("interrupted", "stop", evidence.end_reason, evidence.host)
        if evidence.missing_since is None:
            # The engine may begin it again.
            return Next.WAIT
        if record.cause == "timeout":
            return self._by_warning(evidence, evidence.ending, now)
        ending = evidence.ending
        if ending is not None and ending.cause is not None:
            is_agents = ending.cause in _OF_AGENTS and not ending.is_own_limit
            cause: Cause = "lost" if is_agents else ending.cause
            return self._over(evidence, cause, ending.begun_words or ending.words)
        if not self._is_late(evidence, now):
            return Next.ASK
        reason = f"it was ended from outside, and {self.engine} gives no reason"
        return self._over(evidence, "lost", reason)

    def _by_warning(self, evidence: Evidence, ending: Ending | None, now: float) -> Over | Next:
        """Judge an attempt that its agent ended after the engine's warning signal."""
        if ending is not None and ending.cause is not None and ending.cause not in _OF_AGENTS:
            return self._over(evidence, ending.cause, ending.words)
        near_limit = ending.near_limit if ending is not None else None
        if near_limit is None:
            if not self._is_late(evidence, now):
                return Next.ASK
            near_limit = f"the time limit of its job in {self.engine}"
        if near_limit:
            return self._over(evidence, "timeout", near_limit)
        # Sites may send the same warning before a preemption as before the time limit.
        reason = f"{self.engine} told it to end long before its time limit"
        return self._over(evidence, "preempted", reason)

    def _over(
        self, evidence: Evidence, cause: Cause, words: str, *, is_given_up: bool = False
    ) -> Over:
        """Return the failure of an attempt from the engine's action on its unit."""
        if cause == "timeout" and evidence.follows and not evidence.is_unit_unbegun:
            cause, words = "evicted", f"the tasks before it have used up {words}"
        is_limit = cause == "timeout"
        return Over("failed", cause, words, evidence.host, is_given_up, is_limit)

    def _by_nobody(self, evidence: Evidence, now: float) -> Over | Next:
        """Judge an attempt whose end neither its agent nor the engine has reported."""
        assert evidence.missing_since is not None
        if evidence.end_reason and not evidence.has_begun:
            return Over("interrupted", "stop", evidence.end_reason)
        patience = self.patience
        is_forgotten = (
            evidence.looks >= patience.unknown_looks
            and now - evidence.missing_since >= patience.unknown_s
            and now - evidence.beat_at >= patience.beat_s
        )
        if not is_forgotten:
            return Next.ASK
        if evidence.end_reason:
            return Over("interrupted", "stop", evidence.end_reason, evidence.host, is_given_up=True)
        reason = f"{self.engine} no longer knows it, and it sends no heartbeat"
        return Over("failed", "lost", reason, evidence.host, is_given_up=True)

    def _by_engine(self, evidence: Evidence, ending: Ending, now: float) -> Over | Next:
        """Judge an attempt whose end only the engine has reported."""
        if evidence.end_reason:
            # An agent that has begun may still record how its program ended.
            if evidence.has_begun and now - evidence.ended_at < self.patience.record_s:
                return Next.WAIT
            return Over("interrupted", "stop", evidence.end_reason, evidence.host)
        if ending.cause is None:
            return self._by_success(evidence, ending, now)
        return self._by_failure(evidence, ending, ending.cause, now)

    def _by_success(self, evidence: Evidence, ending: Ending, now: float) -> Over | Next:
        """Judge an attempt whose success only the engine has reported, which proves nothing."""
        if now - evidence.ended_at < self.patience.success_s:
            return Next.WAIT
        reason = (
            f"{self.engine} says {ending.words}, but its result did not appear in {self.run}; is "
            f"that the same directory on {evidence.host or 'its node'}?"
        )
        # The program may have run, so this is no disturbance.
        return Over("failed", "start", reason, evidence.host, is_given_up=True)

    def _by_failure(
        self, evidence: Evidence, ending: Ending, cause: Cause, now: float
    ) -> Over | Next:
        """Judge an attempt whose failure only the engine has reported."""
        is_sure = cause == "cancelled" and not evidence.has_begun
        if not is_sure and now - evidence.ended_at < self.patience.record_s:
            return Next.WAIT
        is_early = evidence.record is None and evidence.shares_unit and cause in _ENDED_EARLY
        # A failure before the agent begins, such as in `setup`, is the same for all of the unit.
        if is_early and not evidence.is_unit_unbegun:
            reason = f"its job ended before the task could start: {ending.words}"
            return Over("failed", "evicted", reason, evidence.host, is_given_up=True)
        if evidence.record is not None and cause in _OF_AGENTS and not ending.is_own_limit:
            words = ending.begun_words or ending.words
            reason = f"its agent ended without a result: {words}"
            return Over("failed", "lost", reason, evidence.host, is_given_up=True)
        return self._over(evidence, cause, ending.words, is_given_up=True)

    def _is_late(self, evidence: Evidence, now: float) -> bool:
        since = evidence.missing_since
        return since is not None and now - since >= self.patience.reason_s


def _cause(record: AttemptRecord) -> Cause:
    """Return the cause in a record of an agent of this version."""
    cause: Cause = record.cause or "exit"  # type: ignore[assignment]  # a plain text on the node
    return cause

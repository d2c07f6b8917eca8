"""When an attempt is over, by two witnesses: its record, and the engine.

The record, which the agent writes on the node, decides. The engine's word adds to it, and decides
where the record does not come. An answer that is not there says nothing.
"""

from __future__ import annotations

import dataclasses
import signal
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarmac.jobs.executors.events import Cause
    from tarmac.jobs.executors.interface import Outcome
    from tarmac.jobs.executors.queueing.engine import Ending, Shown
    from tarmac.node import AttemptRecord

# What an engine ends units for before the turn of their later attempts has come.
_ENDED_EARLY: frozenset[Cause] = frozenset({"timeout", "memory", "signal", "exit", "start"})

# What the engine sees where the agent itself has failed.
_OF_AGENTS: frozenset[Cause] = frozenset({"signal", "exit", "start"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a witness is waited for, in seconds.

    A network file system shows a file to other hosts after its attributes' time at the latest,
    which is 60 s by default (nfs(5), ``acdirmax``), and mostly at once.

    Attributes:
        record_s: Wait for a record, once the engine has reported that its unit failed.
        reason_s: Wait for the engine's reason for ending a unit, once the record shows that it did.
        success_s: Wait for a record, once the engine has reported that its unit succeeded.
        unknown_s: Wait for an engine that does not know a unit to know it again.
        unknown_looks: So often it must not know it besides.
        beat_s: For a sign of life in the record then; agents give one every 30 s.
        others_s: For another host to start such a task, where one has not been started.
    """

    record_s: float = 30.0
    reason_s: float = 30.0
    success_s: float = 90.0
    unknown_s: float = 120.0
    unknown_looks: int = 3
    beat_s: float = 75.0
    others_s: float = 60.0


class Next(Enum):
    """What to do about an attempt that is not over.

    Attributes:
        WAIT: Nothing but to go on looking.
        ASK: Ask the engine how its unit ended.
    """

    WAIT = "wait"
    ASK = "ask"


@dataclasses.dataclass(frozen=True)
class Over:
    """How an attempt is over.

    Attributes:
        outcome: Outcome of the attempt, such as ``failed``.
        cause: Kind of failure; None where the attempt succeeded.
        reason: The cause in words, for people.
        host: Name of the attempt's node; empty where unknown.
        is_given_up: Whether nobody has seen it end: it is kept from going on unseen.
        is_engines_limit: Whether the engine's own time limit has ended it.
    """

    outcome: Outcome
    cause: Cause | None = None
    reason: str = ""
    host: str = ""
    is_given_up: bool = False
    is_engines_limit: bool = False


@dataclasses.dataclass
class Evidence:
    """What is known of an attempt; times by the monotonic clock.

    Attributes:
        record: Record of the attempt in this submission; None while there is none.
        beat_at: Time at which its record last changed.
        shown: Unit of the attempt, as the engine showed it last; None before.
        has_run: Whether the engine has ever shown its unit at work.
        missing_since: Time from which the engine has not shown the unit; None while it does.
        looks: Number of looks at the engine since then.
        ending: Ending of the unit by the engine; None before.
        ended_at: Time at which the engine first reported the ending.
        shares_unit: Whether its unit takes other attempts too.
        follows: Whether its unit takes other attempts before it.
        first: Evidence on the first attempt of its unit, where it follows one that is in hand.
        asked: Reason for ending it, in words; empty while nobody has asked for its end.
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
    asked: str = ""
    suspected_at: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether anybody has seen it at work."""
        return self.has_run or self.record is not None

    @property
    def is_unit_unbegun(self) -> bool:
        """Whether no attempt of its unit has begun, as far as their records say."""
        first = self.first if self.follows else self
        return first is not None and first.record is None

    @property
    def counts_alone(self) -> bool:
        """Whether a start that failed is one more, and not that of its unit's first attempt."""
        return self.record is not None or not self.follows

    @property
    def host(self) -> str:
        """Where it ran, as far as that is known."""
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
            # Begun again by the engine, after it had said how it ended.
            self.missing_since, self.looks, self.ending = None, 0, None

    def miss(self, now: float) -> None:
        """Note that the engine was looked at, and does not show its unit."""
        if self.missing_since is None:
            self.missing_since = now
        self.looks += 1

    def hear(self, ending: Ending, now: float) -> None:
        """Note how the engine says that its unit ended."""
        if self.ending is None:
            self.ended_at = now
        self.ending = ending


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judge:
    """Says when attempts are over.

    Attributes:
        engine: The engine's title, for messages.
        run: The run's directory, for messages.
        patience: Seconds to wait for each witness.
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
        """Judge an attempt whose agent has written how it ended."""
        if record.outcome == "interrupted":
            return self._by_interruption(evidence, record, now)
        if record.outcome == "succeeded":
            return Over("succeeded", host=record.host)
        over = Over("failed", _cause(record), record.reason, record.host)
        # The kernel ends what takes more memory than its control group has by SIGKILL.
        if record.exit_code != -signal.SIGKILL or over.cause != "signal" or evidence.asked:
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
        """Judge an attempt whose agent was told to end it, and cannot know by whom and why."""
        if evidence.asked:
            return Over("interrupted", "stop", evidence.asked, evidence.host)
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
        reason = f"it was ended from outside, and {self.engine} does not say why"
        return self._over(evidence, "lost", reason)

    def _by_warning(self, evidence: Evidence, ending: Ending | None, now: float) -> Over | Next:
        """Judge an attempt whose agent has ended it because the engine warned it."""
        if ending is not None and ending.cause is not None and ending.cause not in _OF_AGENTS:
            return self._over(evidence, ending.cause, ending.words)
        near_limit = ending.near_limit if ending is not None else None
        if near_limit is None:
            if not self._is_late(evidence, now):
                return Next.ASK
            near_limit = f"the time limit of its job in {self.engine}"
        if near_limit:
            return self._over(evidence, "timeout", near_limit)
        # Sites may warn what is to make room for others as they do what has no time left.
        reason = f"{self.engine} warned it of its end long before its time was over"
        return self._over(evidence, "preempted", reason)

    def _over(
        self, evidence: Evidence, cause: Cause, words: str, *, is_given_up: bool = False
    ) -> Over:
        """Return that an attempt has failed for what the engine did to its unit."""
        if cause == "timeout" and evidence.follows and not evidence.is_unit_unbegun:
            cause, words = "evicted", f"the tasks before it have used up {words}"
        is_limit = cause == "timeout"
        return Over("failed", cause, words, evidence.host, is_given_up, is_limit)

    def _by_nobody(self, evidence: Evidence, now: float) -> Over | Next:
        """Judge an attempt whose agent has said nothing of its end, nor has the engine."""
        assert evidence.missing_since is not None
        if evidence.asked and not evidence.has_begun:
            return Over("interrupted", "stop", evidence.asked)
        patience = self.patience
        is_forgotten = (
            evidence.looks >= patience.unknown_looks
            and now - evidence.missing_since >= patience.unknown_s
            and now - evidence.beat_at >= patience.beat_s
        )
        if not is_forgotten:
            return Next.ASK
        if evidence.asked:
            return Over("interrupted", "stop", evidence.asked, evidence.host, is_given_up=True)
        reason = f"{self.engine} does not know it any more, and it gives no sign of life"
        return Over("failed", "lost", reason, evidence.host, is_given_up=True)

    def _by_engine(self, evidence: Evidence, ending: Ending, now: float) -> Over | Next:
        """Judge an attempt that has ended by the engine's word alone."""
        if evidence.asked:
            # An agent that has begun says how its program ended.
            if evidence.has_begun and now - evidence.ended_at < self.patience.record_s:
                return Next.WAIT
            return Over("interrupted", "stop", evidence.asked, evidence.host)
        if ending.cause is None:
            return self._by_success(evidence, ending, now)
        return self._by_failure(evidence, ending, ending.cause, now)

    def _by_success(self, evidence: Evidence, ending: Ending, now: float) -> Over | Next:
        """Judge an attempt that has succeeded by the engine's word alone, which is none."""
        if now - evidence.ended_at < self.patience.success_s:
            return Next.WAIT
        reason = (
            f"{self.engine} says {ending.words}, but its result did not appear in {self.run}; is "
            f"that the same directory on {evidence.host or 'its node'}?"
        )
        # The program may have run, so that this one is no disturbance.
        return Over("failed", "start", reason, evidence.host, is_given_up=True)

    def _by_failure(
        self, evidence: Evidence, ending: Ending, cause: Cause, now: float
    ) -> Over | Next:
        """Judge an attempt that has failed by the engine's word alone."""
        is_sure = cause == "cancelled" and not evidence.has_begun
        if not is_sure and now - evidence.ended_at < self.patience.record_s:
            return Next.WAIT
        is_early = evidence.record is None and evidence.shares_unit and cause in _ENDED_EARLY
        # What ends a unit before its agent begins, such as `setup`, is the same for all in it.
        if is_early and not evidence.is_unit_unbegun:
            reason = f"its job ended before its turn had come: {ending.words}"
            return Over("failed", "evicted", reason, evidence.host, is_given_up=True)
        if evidence.record is not None and cause in _OF_AGENTS and not ending.is_own_limit:
            words = ending.begun_words or ending.words
            reason = f"its agent ended without a word: {words}"
            return Over("failed", "lost", reason, evidence.host, is_given_up=True)
        return self._over(evidence, cause, ending.words, is_given_up=True)

    def _is_late(self, evidence: Evidence, now: float) -> bool:
        since = evidence.missing_since
        return since is not None and now - since >= self.patience.reason_s


def _cause(record: AttemptRecord) -> Cause:
    """Return the cause in a record, which an agent of this version has written."""
    cause: Cause = record.cause or "exit"  # type: ignore[assignment]  # a plain text on the node
    return cause

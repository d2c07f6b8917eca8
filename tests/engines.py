"""An engine that queues attempts, as a cluster does: they outlive the executors that ask."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from tarmac.jobs import (
    Attempt,
    Began,
    Busy,
    Event,
    ExecutorKind,
    Finished,
    Grant,
    Queued,
    Site,
)

GRANT = Grant(1.0, 0, (), 1.0)

# What becomes of an attempt, after it was queued.
Life = Callable[[Attempt], Iterator[Event]]


def succeeds(attempt: Attempt) -> Iterator[Event]:
    yield Began(attempt, GRANT, "n1")
    yield Finished(attempt, "succeeded", exit_code=0, host="n1")


def stays(attempt: Attempt) -> Iterator[Event]:
    yield Began(attempt, GRANT, "n1")


@dataclasses.dataclass
class Engine:
    """What a cluster keeps.

    Attributes:
        life: What becomes of an attempt; may be changed at any time.
        room: How many attempts it takes at once.
        left: Attempts that have not ended, by task and number.
        asked: How many attempts each call of `start` was given.
        ended: What was ended by `Executor.end` or `stop`.
        taken: All attempts that it was ever given.
    """

    life: Life = succeeds
    room: int = 10**6
    left: dict[tuple[int, int], Attempt] = dataclasses.field(default_factory=dict)
    asked: list[int] = dataclasses.field(default_factory=list)
    ended: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    taken: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    def open(self, _site: Site | None = None) -> QueueingExecutor:
        return QueueingExecutor(self)

    def kind(self, name: str) -> ExecutorKind:
        return ExecutorKind(name, "an engine", lambda *_: None, self.open, outlives=True)


class QueueingExecutor:
    """An `Executor` of an `Engine`."""

    queues = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._mine: dict[tuple[int, int], Attempt] = {}
        self._lives: list[Iterator[Event]] = []
        self._told: list[tuple[int, int]] = []

    def start(self, attempts: Sequence[Attempt]) -> Sequence[Queued | Busy]:
        self._engine.asked.append(len(attempts))
        answers: list[Queued | Busy] = []
        for attempt in attempts:
            if len(self._mine) >= self._engine.room:
                answers.append(Busy.FULL)
                continue
            key = (attempt.task.index, attempt.number)
            assert key not in self._engine.left, f"{key} is queued twice"
            self._engine.left[key] = self._mine[key] = attempt
            self._engine.taken.append(key)
            self._lives.append(self._engine.life(attempt))
            answers.append(Queued(attempt, f"80_{attempt.task.index}"))
        return answers

    def wait(self, patience_s: float) -> Sequence[Event]:
        # What was told before is on record by now.
        for key in self._told:
            del self._engine.left[key]
        # One step of each attempt at a look, as an engine that is asked now and then tells it.
        lives, self._lives = self._lives, []
        events: list[Event] = []
        for life in lives:
            if event := next(life, None):
                events.append(event)
                self._lives.append(life)
        ends = (event.attempt for event in events if isinstance(event, Finished))
        self._told = [(attempt.task.index, attempt.number) for attempt in ends]
        for key in self._told:
            del self._mine[key]
        return events

    def end(self, attempt: Attempt, reason: str, grace_s: float) -> None:
        self._engine.ended.append((attempt.task.index, attempt.number))
        self._lives.append(iter([Finished(attempt, "interrupted", reason, cause="stop")]))

    def stop(self) -> None:
        for attempt in self._mine.values():
            self.end(attempt, "the run was stopped", 10.0)

    def attach(self, make: Callable[[int, int], Attempt | None]) -> Sequence[Queued | Began]:
        there: list[Queued | Began] = []
        for key in [*self._engine.left]:
            attempt = make(*key)
            if attempt is None:
                del self._engine.left[key]
                continue
            self._engine.left[key] = self._mine[key] = attempt
            self._lives.append(self._engine.life(attempt))
            there.append(Queued(attempt, f"80_{key[0]}"))
        return there

    def detach(self) -> None:
        self._mine.clear()
        self._lives.clear()

    def close(self) -> None:
        assert not self._mine, "it still has attempts"
